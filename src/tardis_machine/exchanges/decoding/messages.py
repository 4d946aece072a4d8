"""What decodes the messages of a venue to the structs that its mappers read.

Compiled code reads what venues usually send (`compiled_messages.pyx`), which is less than all of
JSON and thus faster; msgspec decodes the rest, and everything where there is no compiled code.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from tardis_machine.model.compiled import compiled_module

Decode: TypeAlias = Callable[[bytes], Any]

LevelForm: TypeAlias = tuple[str, bytes]
"""How the levels of a field are written: `pairs`, `actions` or `sides`, and the word of buyers."""

_Values: TypeAlias = tuple[set[str], Any, Any]
"""The kinds of values a field takes, the shape of its parts, and the words it may be."""

_compiled = compiled_module("tardis_machine.exchanges.decoding.compiled_messages")

_KINDS: Mapping[Any, str] = {
    str: "text",
    float: "number",
    int: "integer",
    bool: "truth",
    NoneType: "nothing",
}
_AMBIGUOUS = ({"number", "integer"}, {"truth", "text"}, {"word", "text"})
"""Kinds of which msgspec chooses one, where a type has both."""


@cache
def decoder_of(struct: Any) -> Decode:
    """Return what decodes messages to a struct."""
    # Not strict: venues write many numbers as text.
    decode = msgspec.json.Decoder(struct, strict=False).decode
    return faster_decoder(struct, decode, (), {})


def faster_decoder(
    struct: Any, decode: Decode, path: Sequence[str], levels: Mapping[str, LevelForm]
) -> Decode:
    """Return compiled code that does what `decode` does, and leaves to it what is not usual.

    Args:
        struct: The struct of a message.
        decode: Decodes any message.
        path: The fields that lead to the part with levels that stay text.
        levels: How the fields with levels there are written.
    """
    shape = None if _compiled is None else _shape(struct, path, levels)
    return decode if shape is None else _compiled.MessageDecoder(shape, decode)


def _shape(struct: Any, path: Sequence[str], levels: Mapping[str, LevelForm]) -> Any:
    """Describe a struct to the compiled code; None when that does not read such messages."""
    origin = get_origin(struct) or struct
    if not (isinstance(origin, type) and issubclass(origin, Struct)):
        return None
    config = origin.__struct_config__
    if config.tag is not None or config.forbid_unknown_fields:
        return None
    fields = []
    for each in msgspec.structs.fields(struct):
        values: _Values | None
        if not path and each.name in levels:
            form, buy = levels[each.name]
            values = {form}, None, buy
        else:
            inner = path[1:] if path and each.name == path[0] else None
            values = _values(each.type, inner, levels)
        if values is None and each.required:
            return None
        # A field of which nothing can be read is one that usual messages do not have.
        kinds, part, words = values or (set(), None, None)
        wire_name = each.encode_name.encode()
        fields.append(
            (wire_name, each.name, kinds, each.default, each.default_factory, part, words)
        )
    try:
        return _compiled.Shape(origin, fields, config.array_like)
    except ImportError:
        return None


def _values(
    kind: Any, path: Sequence[str] | None, levels: Mapping[str, LevelForm]
) -> _Values | None:
    """Describe the values of a type; None when compiled code does not read them."""
    kinds: set[str] = set()
    part: Any = None
    words: Any = None
    for option in get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,):
        if option in _KINDS:
            kinds.add(_KINDS[option])
        elif get_origin(option) is Literal and all(type(word) is str for word in get_args(option)):
            kinds.add("word")
            words = get_args(option)
        elif part is None:
            is_list = get_origin(option) is list
            of = get_args(option)[0] if is_list else option
            part = _shape(of, path or (), {} if path is None else levels)
            if part is None:
                return None
            kinds.add("parts" if is_list else "part")
        else:
            return None
    return None if any(pair <= kinds for pair in _AMBIGUOUS) else (kinds, part, words)
