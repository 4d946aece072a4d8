"""Servers of our own in a child process, told what to do by one JSON line per command."""

import json
import select
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.servers import places
from tests.servers.process import ServerFailedError, ServerProcess

ANSWER_SECONDS = 240

Commands = Mapping[str, Callable[..., object]]


class CommandedProcess(ServerProcess):
    """A Python module of `tests.servers` as a child process that answers commands."""

    module: ClassVar[str]
    has_pipes = True

    def __init__(self, *, port: int | None = None, directory: Path | None = None) -> None:
        super().__init__(port=port, directory=directory)
        self._one_at_a_time = threading.Lock()

    @property
    def working_directory(self) -> Path:
        """Return the project's root, from where the module can be imported."""
        return places.ROOT

    def arguments(self) -> list[str]:
        """Return the arguments of the module."""
        return []

    def command(self) -> list[str]:
        """Return the command line of the module."""
        return [sys.executable, "-m", self.module, *self.arguments()]

    def is_listening(self) -> bool:
        """Say yes: an answer through our own pipe proves that the server is ours."""
        return True

    def ping(self) -> None:
        """Ask for an answer."""
        self.call("ping")

    def call(self, command: str, /, **arguments: Any) -> Any:
        """Run a command in the child and return its result."""
        if self._process is None or not self._process.stdin or not self._process.stdout:
            raise ServerFailedError(f"{self.name} is not running.")
        line = json.dumps({"name": command, "arguments": arguments}).encode() + b"\n"
        with self._one_at_a_time:
            self._process.stdin.write(line)
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], ANSWER_SECONDS)[0]:
                raise ServerFailedError(f"{self.name} did not answer {command!r}.")
            answer = json.loads(self._process.stdout.readline() or '{"error": "end of output"}')
        if "error" in answer:
            raise ServerFailedError(f"{self.name} could not {command!r}: {answer['error']}")
        return answer["result"]


def serve_commands(commands: Commands) -> None:
    """Answer commands until the parent closes the pipe."""
    known = {"ping": lambda: None, **commands}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": known[request["name"]](**request["arguments"])}
        except Exception as exc:
            answer = {"error": repr(exc)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
