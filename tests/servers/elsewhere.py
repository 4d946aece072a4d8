"""Servers that the environment names instead of ours (`TM_TEST_KAFKA` and the like)."""

import os
from typing import NoReturn, Self


class UncontrollableServerError(RuntimeError):
    """A test wants to stop a server that is not ours."""


class Elsewhere:
    """A server that tests may use and must not stop."""

    def __init__(self, variable: str, address: str) -> None:
        self.address = address
        self._variable = variable

    @classmethod
    def from_environment(cls, variable: str) -> Self | None:
        """Return the server that the variable names, if it is set."""
        address = os.environ.get(variable)
        return cls(variable, address) if address else None

    def heal(self) -> None:
        """Do nothing: nobody could have stopped it."""

    def __getattr__(self, name: str) -> NoReturn:
        # Only names that the class lacks come here: kill, pause, proxies, faults.
        raise UncontrollableServerError(
            f"{self._variable} names a server of yours, and this test needs {name!r} of a server "
            f"of ours. Unset {self._variable} to run it."
        )
