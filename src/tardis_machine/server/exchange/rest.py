"""What a venue answers over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Answer:
    """Status, body and headers of a response."""

    status: int
    body: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Rest(Protocol):
    """The HTTP side of one venue."""

    def answer(self, path: str, query: Mapping[str, str]) -> Answer:
        """Answer a GET request."""

    def refuse(self, retry_after_seconds: int) -> Answer:
        """Answer that the client has asked too often."""
