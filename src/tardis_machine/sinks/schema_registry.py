"""Registers the envelope's schema and frames records as consumers of a registry expect them.

A framed record is a zero byte, the schema's id in four bytes, the path to the message type within
its file (one zero byte stands for the first message) and the envelope. Deserializers of Confluent,
Apicurio and others read it.
"""

import base64
import http.client
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from tardis_machine.bronze.envelope import parse_event
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.settings import Secret

PREFIX_BYTES = 6
_FIRST_MESSAGE = b"\x00"
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_PAUSE_SECONDS = 1.0
_SHOWN_BYTES = 200


def schema_text() -> str:
    """Return the schema of the envelope in the form registries take from serializers.

    It is the file descriptor that the generated code carries, so it cannot differ from what is
    encoded. Well-known types need no reference: registries bring them.
    """
    descriptor = parse_event(b"").DESCRIPTOR.file
    return base64.b64encode(descriptor.serialized_pb).decode()


def frame_prefix(schema_id: int) -> bytes:
    """Return what stands before an envelope."""
    return b"\x00" + schema_id.to_bytes(4, "big") + _FIRST_MESSAGE


class SchemaRegistry:
    """Knows the prefix of every topic's records; asks the registry once per subject.

    Args:
        subject: one subject for all topics; None: `<topic>-value`.
        auto_register: False only looks up a registered schema.
    """

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: Secret | None = None,
        subject: str | None = None,
        auto_register: bool = True,
        timeout_seconds: float = 5.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = urlsplit(url.rstrip("/"))
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": f"{_CONTENT_TYPE}, */*"}
        if username is not None and password is not None:
            login = base64.b64encode(f"{username}:{password.reveal()}".encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"
        self._subject = subject
        self._auto_register = auto_register
        self._timeout_seconds = timeout_seconds
        self._monotonic = monotonic
        self._prefixes: dict[str, bytes] = {}
        self._failure: SinkError | None = None
        self._ask_again_at = 0.0

    def prefix(self, topic: str) -> bytes:
        """Return the prefix of a topic's records.

        Raises:
            SinkUnavailableError: the registry is unreachable or unavailable.
            SinkError: it rejects the schema or the credentials.
        """
        subject = self._subject or f"{topic}-value"
        if subject not in self._prefixes:
            self._prefixes[subject] = frame_prefix(self._schema_id(subject))
        return self._prefixes[subject]

    def _schema_id(self, subject: str) -> int:
        # A registry that is down must not cost a timeout per topic and batch.
        if self._failure is not None and self._monotonic() < self._ask_again_at:
            raise self._failure
        try:
            found = self._ask(subject)
        except SinkError as error:
            self._failure = error
            self._ask_again_at = self._monotonic() + _PAUSE_SECONDS
            raise
        self._failure = None
        return found

    def _ask(self, subject: str) -> int:
        action = "/versions" if self._auto_register else ""
        path = f"{self._url.path}/subjects/{quote(subject, safe='')}{action}"
        body = json.dumps({"schemaType": "PROTOBUF", "schema": schema_text()})
        status, text = self._post(path, body)
        if status != http.client.OK:
            raise _refusal(status, text, subject)
        try:
            return int(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(
                f"The schema registry returned no schema id for {subject!r}: {text}"
            ) from error

    def _post(self, path: str, body: str) -> tuple[int, str]:
        connection = self._connection()
        try:
            connection.request("POST", path, body, self._headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            raise SinkUnavailableError(
                f"The schema registry at {self._url.netloc} is unreachable ({reason})."
            ) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        is_encrypted = self._url.scheme == "https"
        kind = http.client.HTTPSConnection if is_encrypted else http.client.HTTPConnection
        return kind(self._url.netloc, timeout=self._timeout_seconds)


def _refusal(status: int, text: str, subject: str) -> SinkError:
    """Return the error for an answer that is not OK; only some may be different later."""
    said = f"{status} {_message(text)}"
    if status in (http.client.REQUEST_TIMEOUT, http.client.TOO_MANY_REQUESTS) or status >= 500:
        return SinkUnavailableError(f"The schema registry is unavailable: {said}")
    return SinkError(f"The schema registry rejected {subject!r}: {said}")


def _message(text: str) -> str:
    try:
        answer: Any = json.loads(text)
        return str(answer["message"])
    except (ValueError, KeyError, TypeError):
        return text[:_SHOWN_BYTES]
