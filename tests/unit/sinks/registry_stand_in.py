"""A schema registry of the size that tests need: subjects, ids, logins, and bad days."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit


class RegistryStandIn:
    """Speaks the part of Confluent's API that serializers and deserializers use.

    Args:
        login: user and password that every request must have.
    """

    def __init__(self, login: tuple[str, str] | None = None) -> None:
        self.schemas: dict[int, dict[str, str]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        """Answers to give before all others."""
        self._login = login
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: Any, login: str | None) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        if self.refusals:
            return self.refusals.pop(0)
        if self._login is not None and login != _basic(*self._login):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]:
            case ["subjects", subject, "versions"] if method == "POST":
                return self._register(subject, body)
            case ["subjects", subject] if method == "POST":
                return self._look_up(subject, body)
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
        return 404, {"error_code": 40401, "message": "Not found."}

    def _register(self, subject: str, body: dict[str, str]) -> tuple[int, Any]:
        number = self._id_of(body) or len(self.schemas) + 100_001
        self.schemas[number] = {"schemaType": body["schemaType"], "schema": body["schema"]}
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return 200, {"id": number}

    def _look_up(self, subject: str, body: dict[str, str]) -> tuple[int, Any]:
        number = self._id_of(body)
        if number not in self.subjects.get(subject, []):
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, {"subject": subject, "id": number, "version": 1, **self.schemas[number]}

    def _id_of(self, body: dict[str, str]) -> int | None:
        same = (
            number for number, known in self.schemas.items() if known["schema"] == body["schema"]
        )
        return next(same, None)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_GET(self) -> None:
                self._respond(None)

            def _respond(self, body: Any) -> None:
                login = self.headers.get("Authorization")
                status, answer = registry.answer(self.command, self.path, body, login)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                """Stay silent."""

        return Handler


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
