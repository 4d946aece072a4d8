"""Answers remembered per tag, found without decoding the message."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from tardis_machine.exchanges.spec import Tag

MAX_TAGS = 100_000
"""Distinct tags remembered; a feed with more of them is asked about anew."""

Answer = TypeVar("Answer")


class TagTable(Generic[Answer]):
    """Knows one answer per tag; whoever reads many messages looks into `known` first."""

    def __init__(self, tag: Tag, answer: Callable[[str], Answer], untagged: Answer) -> None:
        self.known: dict[bytes, Answer] = {}
        """Answers by the start of a message, up to the quote that ends its tag."""
        self._tag = tag
        self._decode = msgspec.json.Decoder(tag.message).decode
        self._find = answer
        self._untagged = untagged
        self._answers: dict[str, Answer] = {}

    def answer(self, message: bytes) -> Answer:
        """Return the answer for a message, and remember it for those that start alike."""
        prefix = self._tag.prefix
        end = message.find(b'"', len(prefix))
        tag = message[len(prefix) : end]
        if end < 0 or b"\\" in tag or not message.startswith(prefix):
            return self._decoded_answer(message)
        found = self._answer_for(str(tag, "utf-8"))
        self.known[message[:end]] = found
        return found

    def _decoded_answer(self, message: bytes) -> Answer:
        tag = self._tag.read(self._decode(message))
        return self._untagged if tag is None else self._answer_for(tag)

    def _answer_for(self, tag: str) -> Answer:
        found = self._answers.get(tag)
        if found is None:
            if len(self._answers) >= MAX_TAGS:
                self._answers.clear()
                self.known.clear()
            found = self._answers[tag] = self._find(tag)
        return found
