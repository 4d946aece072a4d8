"""A Redis that answers as told: for versions and sentinels that no package brings."""

import socketserver
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import hiredis

OK = b"+OK\r\n"
QUEUED = b"+QUEUED\r\n"


class RedisStandIn:
    """Takes commands, notes them, and answers what `answer` returns for their words."""

    def __init__(self, answer: Callable[[list[str]], bytes]) -> None:
        self.commands: list[list[str]] = []
        self._answer = answer
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

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

    def named(self, name: str) -> list[list[str]]:
        """Return the commands of one kind."""
        return [words for words in self.commands if words[0] == name]

    def _handler(self) -> type[socketserver.BaseRequestHandler]:
        stand_in = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                reader = hiredis.Reader(encoding="utf-8", errors="replace")
                while data := self.request.recv(65_536):
                    reader.feed(data)
                    while (words := reader.gets()) is not False:
                        stand_in.commands.append(words)
                        self.request.sendall(stand_in._answer(words))

        return Handler


def bulk(text: str) -> bytes:
    """Return a text as a reply."""
    return b"$%d\r\n%b\r\n" % (len(text.encode()), text.encode())


def array(*items: bytes) -> bytes:
    """Return a list of replies as one."""
    return b"*%d\r\n%b" % (len(items), b"".join(items))


class Transactions:
    """Answers for a server of some version that can do MULTI, XADD and XCFGSET."""

    def __init__(self, version: str, **info: str) -> None:
        self._info = {"redis_version": version, "redis_mode": "standalone", **info}
        self._queued: int | None = None

    def __call__(self, words: list[str]) -> bytes:
        answers: dict[str, Callable[[], bytes]] = {
            "INFO": lambda: bulk("".join(f"{k}:{v}\r\n" for k, v in self._info.items())),
            "CONFIG": lambda: array(bulk("proto-max-bulk-len"), bulk("536870912")),
            "EXISTS": lambda: b":0\r\n",
            "MULTI": self._begin,
            "XADD": self._add,
            "EXEC": self._execute,
        }
        known: Any = answers.get(words[0])
        return bytes(known()) if known else OK

    def _begin(self) -> bytes:
        self._queued = 0
        return OK

    def _add(self) -> bytes:
        if self._queued is None:
            return bulk("1-1")
        self._queued += 1
        return QUEUED

    def _execute(self) -> bytes:
        count, self._queued = self._queued or 0, None
        return array(*[bulk("1-1")] * count)
