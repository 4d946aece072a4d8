"""The tag of a message: the text that tells channels apart, found without decoding the message.

Where it stands depends on the wire format: at the start, at the end, or in the name of a key. Each
kind of tag cuts a *key* out of the message: bytes that decide the tag and cost one or two searches.
The first message with a new key is decoded to learn its tag; a `TagTable` remembers the answer for
all that have the same key.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Raw

from tardis_machine.exchanges.lines import MESSAGE_START
from tardis_machine.model.compiled import compiled_module

MAX_TAGS = 100_000
"""Distinct tags remembered; a feed with more of them is asked about anew."""

SEPARATOR = ","
"""Between the texts of a tag that is made of several."""

Answer = TypeVar("Answer")


class Tag(Protocol):
    """Where the messages of a wire format carry their tag."""

    def keys(self, lines: Sequence[bytes], start: int) -> list[bytes]:
        """Return the key of each line, whose message begins at `start`."""

    def read(self, message: bytes) -> str | None:
        """Decode a message and return its tag; None for messages without one, which are ignored."""

    def key_of(self, tag: str) -> bytes:
        """Return the key of messages with this tag that are written in the usual way."""


@runtime_checkable
class AnnouncedTag(Tag, Protocol):
    """A tag of which messages carry only a number, once another message said what it stands for."""

    def announced(self, message: bytes) -> tuple[str, str] | None:
        """Return the tag that `read` gives from now on, and what it stands for."""


def _start_keys(lines: Sequence[bytes], start: int, tag_start: int, end: bytes) -> list[bytes]:
    """Cut messages, which begin at `start`, where the text at `tag_start` ends."""
    return [line[start : line.find(end, tag_start)] for line in lines]


_compiled = compiled_module("tardis_machine.exchanges.compiled_tags")
start_keys = _start_keys if _compiled is None else _compiled.start_keys


class StartTag:
    """The tag is a text near the start: `{"table":"trade", …`."""

    def __init__(
        self, prefix: bytes, message: Any, read: Callable[[Any], str | None], *, end: bytes = b'"'
    ) -> None:
        """Describe it.

        Args:
            prefix: How messages start, up to the tag, in the usual key order.
            message: A struct that reads just the tag, for messages in another key order.
            read: Returns the tag of such a struct.
            end: What follows the tag.
        """
        self._prefix = prefix
        self._decode = msgspec.json.Decoder(message).decode
        self._read = read
        self._end = end

    def keys(self, lines: Sequence[bytes], start: int) -> list[bytes]:
        """Cut each message where its tag ends."""
        return start_keys(lines, start, start + len(self._prefix), self._end)

    def read(self, message: bytes) -> str | None:
        """Decode the part of the message that holds the tag."""
        return self._read(self._decode(message))

    def key_of(self, tag: str) -> bytes:
        """Return prefix and tag."""
        return self._prefix + tag.encode()


class EndTag:
    """The tag is the last two texts of an array: `[0, […], "trade", "XBT/USD"]`."""

    def keys(self, lines: Sequence[bytes], start: int) -> list[bytes]:
        """Cut each message where its last but one text starts."""
        return [line[line.rfind(b',"', start, line.rfind(b',"')) :] for line in lines]

    def read(self, message: bytes) -> str | None:
        """Join the two texts; objects, and arrays that end otherwise, have no tag."""
        decoded = msgspec.json.decode(message, type=list[Raw] | dict[str, Raw])
        if isinstance(decoded, dict) or len(decoded) < 2:
            return None
        texts = [msgspec.json.decode(item) for item in decoded[-2:]]
        return SEPARATOR.join(texts) if all(isinstance(text, str) for text in texts) else None

    def key_of(self, tag: str) -> bytes:
        """Return how an array with these texts ends."""
        channel, _, symbol = tag.partition(SEPARATOR)
        return f',"{channel}","{symbol}"]'.encode()


class TextTag:
    """The tag is the texts of some keys, wherever they stand: `{…,"a":"x",…,"b":"y",…}`.

    The keys stand in this order, and none of them occurs earlier, deeper inside a message.
    """

    def __init__(self, *names: str, unless: str | None = None) -> None:
        """Describe it.

        Args:
            names: The keys; `arg.topic` is the key `topic` of the object `arg`.
            unless: A key that messages without a tag have.
        """
        self._paths = [name.split(".") for name in names]
        self._marks = [f'"{path[-1]}":"'.encode() for path in self._paths]
        self._unless = unless
        self._decode = msgspec.json.Decoder(_text_message(self._paths, unless)).decode

    def keys(self, lines: Sequence[bytes], start: int) -> list[bytes]:
        """Cut each of the keys with its text out of each message."""
        if self._unless is not None:
            other = f'"{self._unless}":'.encode()
            return [b"" if other in line else self._cut_all(line, start) for line in lines]
        if len(self._marks) == 1:
            [mark] = self._marks
            return [_cut(line, mark, start) for line in lines]
        return [self._cut_all(line, start) for line in lines]

    def _cut_all(self, line: bytes, position: int) -> bytes:
        key = b""
        find = line.find
        for mark in self._marks:
            begin = find(mark, position)
            if begin < 0:
                return b""
            position = find(b'"', begin + len(mark))
            key += line[begin:position]
        return key

    def read(self, message: bytes) -> str | None:
        """Join the texts; a message that lacks one of them has no tag."""
        decoded = self._decode(message)
        if self._unless is not None and getattr(decoded, self._unless) is not None:
            return None
        texts: list[Any] = []
        for path in self._paths:
            value = decoded
            for name in path:
                value = getattr(value, name, None)
            texts.append(value)
        return None if None in texts else SEPARATOR.join(texts)

    def key_of(self, tag: str) -> bytes:
        """Return the keys and texts as they are written."""
        texts = tag.split(SEPARATOR, len(self._marks) - 1)
        return b"".join(mark + text.encode() for mark, text in zip(self._marks, texts, strict=True))


def _text_message(paths: Sequence[Sequence[str]], other: str | None) -> Any:
    """Make the struct of the texts at these paths, of one or two names, and of another key."""
    fields: list[tuple[str, Any, Any]] = [
        (path[0], str | None, None) for path in paths if len(path) == 1
    ]
    for outer in dict.fromkeys(path[0] for path in paths if len(path) > 1):
        names = [(path[1], str | None, None) for path in paths if path[0] == outer]
        fields.append((outer, msgspec.defstruct("TextObject", names) | None, None))
    if other is not None:
        fields.append((other, Any, None))
    return msgspec.defstruct("TextMessage", fields)


def _cut(line: bytes, mark: bytes, start: int) -> bytes:
    begin = line.find(mark, start)
    return line[begin : line.find(b'"', begin + len(mark))] if begin >= 0 else b""


class KeyTag:
    """The tag is the first of some keys that a message has: `{"sequence":7,"trades":[…]}`.

    A key counts whatever its value is, even null: the value is not looked at. None of the keys may
    occur deeper inside a message.
    """

    def __init__(self, *names: str) -> None:
        fields = [(name, Raw, None) for name in names]
        self._names = names
        self._keys = tuple(map(self.key_of, names))
        self._decode = msgspec.json.Decoder(msgspec.defstruct("KeyedMessage", fields)).decode

    def keys(self, lines: Sequence[bytes], start: int) -> list[bytes]:
        """Look for each key in turn."""
        return [self._first(line) for line in lines]

    def _first(self, line: bytes) -> bytes:
        for key in self._keys:
            if key in line:
                return key
        return b""

    def read(self, message: bytes) -> str | None:
        """Decode the message to see which keys are its own."""
        decoded = self._decode(message)
        return next((name for name in self._names if getattr(decoded, name) is not None), None)

    def key_of(self, tag: str) -> bytes:
        """Return the key as it is written."""
        return f'"{tag}":'.encode()


class TagTable(Generic[Answer]):
    """Knows one answer per tag; whoever reads many lines looks into `known` first."""

    def __init__(self, tag: Tag, answer: Callable[[str], Answer], untagged: Answer) -> None:
        self.known: dict[bytes, Answer] = {}
        """Answers by the key of a line."""
        self.announced: dict[str, str] = {}
        """What the tags of numbered messages stand for."""
        self._tag = tag
        self._announcing = tag if isinstance(tag, AnnouncedTag) else None
        self._find = answer
        self._untagged = untagged
        self._by_tag: dict[str, Answer] = {}

    def keys(self, lines: Sequence[bytes]) -> list[bytes]:
        """Return the key of each recorded line."""
        return self._tag.keys(lines, MESSAGE_START)

    def answer(self, message: bytes) -> Answer:
        """Return the answer for a message, and remember it for those that are alike."""
        return self.find(message)[1]

    def find(self, message: bytes) -> tuple[bytes, Answer]:
        """Return the key of messages that are alike, written in the usual way, and the answer."""
        [key] = self._tag.keys([message], 0)
        found = self.known.get(key)
        if found is not None:
            return key, found
        tag = self._tag.read(message)
        if tag is None:
            return key, self._untagged
        if self._announcing is not None:
            self._learn(self._announcing.announced(message))
        found = self._answer_for(tag)
        usual = self._tag.key_of(tag)
        if key == usual:
            self.known[key] = found
        return usual, found

    def tag_of(self, message: bytes) -> str | None:
        """Return the tag of a message, or what it stands for."""
        tag = self._tag.read(message)
        return None if tag is None else self.announced.get(tag, tag)

    def _learn(self, announcement: tuple[str, str] | None) -> None:
        if announcement is not None:
            number, tag = announcement
            self.announced[number] = tag
            self.known.pop(self._tag.key_of(number), None)
            self._by_tag.pop(number, None)

    def _answer_for(self, tag: str) -> Answer:
        found = self._by_tag.get(tag)
        if found is None:
            if len(self._by_tag) >= MAX_TAGS:
                self._by_tag.clear()
                self.known.clear()
            found = self._by_tag[tag] = self._find(self.announced.get(tag, tag))
        return found
