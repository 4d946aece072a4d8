"""Messages that are nearly right: those of a venue, each changed in one place."""

import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeAlias

Place: TypeAlias = tuple[Any, Any]
"""A list or object and the index or key of one of its values."""

ODD_VALUES: Sequence[Any] = (
    *(None, True, False, [], {}, "", " ", "x", "NaN", "Infinity", "-1", "1e400", "٣", "\ud800"),
    *(0, -1, 7, 0.5, 1e300, 10**30, [None], [[]], [[None, None]], [{}], {"a": 1}, "1970-01-01"),
)
NESTED_DEPTH = 100_000


def places_of(value: Any) -> Iterator[Place]:
    """Return every place inside a decoded message."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, inner in [*items]:
        yield value, key
        if isinstance(inner, (list, dict)):
            yield from places_of(inner)


def leave_out(random: Random, holder: Any, key: Any) -> None:
    del holder[key]


def set_null(random: Random, holder: Any, key: Any) -> None:
    holder[key] = None


def empty(random: Random, holder: Any, key: Any) -> None:
    holder[key] = {} if isinstance(holder[key], dict) else []


def swap_number_and_text(random: Random, holder: Any, key: Any) -> None:
    value = holder[key]
    if isinstance(value, str):
        holder[key] = random.choice([0, -3, 1.5, 1_700_000_000_000])
    else:
        holder[key] = json.dumps(value)


def set_odd_value(random: Random, holder: Any, key: Any) -> None:
    holder[key] = random.choice(ODD_VALUES)


def repeat(random: Random, holder: Any, key: Any) -> None:
    value = holder[key]
    holder[key] = [value, value] if not isinstance(value, list) else value * 3


CHANGES: Sequence[Callable[[Random, Any, Any], None]] = (
    *(leave_out, set_null, empty, swap_number_and_text, set_odd_value, repeat),
)


def changed(random: Random, message: bytes) -> bytes:
    """Change one value of a message."""
    decoded = json.loads(message)
    place = random.choice([*places_of(decoded)])
    random.choice(CHANGES)(random, *place)
    return json.dumps(decoded, separators=(",", ":")).encode()


def cut(random: Random, message: bytes) -> bytes:
    """Keep the start of a message."""
    return message[: random.randrange(len(message))]


def garbled(random: Random, message: bytes) -> bytes:
    """Overwrite one byte."""
    position = random.randrange(len(message))
    return message[:position] + random.randbytes(1) + message[position + 1 :]


def deepened(random: Random, message: bytes) -> bytes:
    """Put lists in lists in the place of a value, deeper than any decoder goes."""
    decoded = json.loads(message)
    holder, key = random.choice([*places_of(decoded)])
    holder[key] = "deep"
    nested = b"[" * NESTED_DEPTH + b"]" * NESTED_DEPTH
    return json.dumps(decoded, separators=(",", ":")).encode().replace(b'"deep"', nested)


def renamed(random: Random, message: bytes) -> bytes:
    """Write another word for one that occurs in the message, such as its channel."""
    words = [word for word in message.split(b'"')[1::2] if word]
    if not words:
        return message
    return message.replace(b'"%b"' % random.choice(words), b'"nobody.knows_this"')


MUTATIONS: Sequence[Callable[[Random, bytes], bytes]] = (
    *([changed] * 30),
    *([cut] * 3),
    *([garbled] * 3),
    *([renamed] * 3),
    deepened,
)


def mutated(random: Random, message: bytes) -> bytes:
    """Return a message that differs in one place."""
    return random.choice(MUTATIONS)(random, message)
