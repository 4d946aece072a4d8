"""Messages that compiled code reads against the same messages decoded by msgspec."""

import json
import re
import sys
from itertools import chain
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tardis_machine.exchanges.decoding.messages import decoder_of, faster_decoder
from tardis_machine.exchanges.lines import MESSAGE_START
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import format_at, make_mappers
from tests.golden.cases import NOW_US, connections, golden_files, recorded_us

MAPPED = [exchange for exchange in REGISTRY.values() if exchange.has_mappers]


class Pair(Struct, gc=False, array_like=True):
    price: float
    amount: float = 0.0
    note: str | None = None


class Part(Struct, gc=False, rename="camel"):
    any_number: float
    whole: int = 7
    pair: Pair | None = None


class Message(Struct, gc=False):
    text: str = ""
    text_or_nothing: str | None = None
    number: float = 0.5
    number_or_text: float | str | None = None
    whole: int = 0
    whole_or_text: int | str = 0
    truth: bool = False
    word: Literal["buy", "sell"] = "buy"
    part: Part | None = None
    parts: list[Part] = []
    pairs: list[Pair] = []
    anything: Any = None


class Required(Struct, gc=False):
    text: str
    number: float | None


numbers = st.from_regex(
    r"-?(0|[1-9][0-9]{0,21})(\.[0-9]{1,21})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
usual = st.from_regex(r"-?(0|[1-9][0-9]{0,7})(\.[0-9]{1,8})?", fullmatch=True)
odd = st.sampled_from(
    ["-", "1.", ".5", "007", "-0", "-0.0", "1.2.3", "+1", "NaN", "inf", "", "true", "null", "0x1"]
)
texts = st.one_of(
    (numbers | usual | odd).map(json.dumps),
    st.text(max_size=30).map(json.dumps),
    st.text(max_size=30).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        ['"buy"', '"sell"', '"bu\\u0079"', '"BTC-29MAR24-60000-P"', '"a\tb"', '"\x7f"']
    ),
)
scalars = texts | numbers | usual | odd | st.sampled_from(["true", "false", "null", "tru", "nul"])
names = st.sampled_from([*Message.__struct_fields__, "anyNumber", "price", "other", "te\\u0078t"])


def objects(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(names, values), max_size=5)
    return pairs.map(lambda each: "{" + ",".join(map('"{0[0]}":{0[1]}'.format, each)) + "}")


def arrays(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, max_size=4).map(lambda each: f"[{','.join(each)}]")


values = st.recursive(scalars, lambda inner: objects(inner) | arrays(inner), max_leaves=12)
blanks = st.sampled_from(["", "", "", " ", "x", "\n"])


ADDRESS = re.compile(" at 0x[0-9a-f]+")
"""Raw values are shown by nothing else."""


def outcome(decode: Any, message: bytes) -> str:
    """Return what a decoder gives as text, which tells 1 from 1.0, or its error."""
    try:
        return ADDRESS.sub("", repr(decode(message)))
    except msgspec.DecodeError as error:
        return f"refused: {error}"


def by_msgspec(struct: Any) -> Any:
    return msgspec.json.Decoder(struct, strict=False).decode


@settings(max_examples=1000)
@given(objects(values), blanks)
@example('{"number":1709251201121,"whole":9223372036854775808,"number_or_text":1e-05}', "")
@example('{"whole":"12","number":"61000.5","part":{"anyNumber":"1","pair":["1"]}}', "")
@example(
    '{"parts":[{"anyNumber":1},{"anyNumber":2,"whole":-3}],"pairs":[[1,2],["3","4","x",{}]]}', ""
)
@example('{"other":{"a":[1,{"b":null}],"c":"d"},"text":"e"}', "")
@example('{"text":"e","text":"f"}', "")
def test_any_message_is_decoded_as_msgspec_does(message: str, blank: str) -> None:
    encoded = (message + blank).encode(errors="surrogatepass")
    for struct in (Message, Required):
        assert outcome(decoder_of(struct), encoded) == outcome(by_msgspec(struct), encoded)


@given(numbers)
@example("9007199254740993")
@example("0.30000000000000004")
@example("123456789012345678901234567890")
def test_every_digit_of_a_number_counts(number: str) -> None:
    for message in (f'{{"number":{number}}}', f'{{"number":"{number}"}}', f'{{"whole":{number}}}'):
        encoded = message.encode()
        assert outcome(decoder_of(Message), encoded) == outcome(by_msgspec(Message), encoded)


@pytest.mark.parametrize("exchange", MAPPED, ids=lambda exchange: exchange.id)
def test_golden_messages_are_decoded_as_msgspec_does(exchange: Exchange) -> None:
    for lines in chain.from_iterable(map(connections, golden_files(exchange.id))):
        wire_format = format_at(exchange, recorded_us(lines[0]), NOW_US)
        mappers = make_mappers(
            exchange, exchange.data_types, recorded_us(lines[0]), NOW_US, is_live=False
        )
        for message in (line[MESSAGE_START:] for line in lines):
            tag = wire_format.tag.read(message)
            for struct in structs_of(mappers, tag):
                assert outcome(decoder_of(struct), message) == outcome(by_msgspec(struct), message)


def structs_of(mappers: list[Any], tag: str | None) -> list[Any]:
    """Return what the mappers read messages of a tag with, levels as numbers."""
    found = [mapper.handler(tag) for mapper in mappers] if tag is not None else []
    return [getattr(handler[0], "struct", handler[0]) for handler in found if handler]


def test_usual_messages_are_not_left_to_msgspec() -> None:
    left: list[bytes] = []
    decode = faster_decoder(Message, left.append, (), {})
    if decode == left.append:
        pytest.skip("nothing is compiled")
    decode(b'{"text":"BTCUSDT","number":"1.5","whole":12,"parts":[{"anyNumber":3}]}')
    assert left == []
    decode(b'{"text": "BTCUSDT"}')
    assert left == [b'{"text": "BTCUSDT"}']


def test_texts_are_decoded_too() -> None:
    assert decoder_of(Message)('{"text":"x"}') == Message(text="x")  # type: ignore[arg-type]


def test_messages_leave_nothing_behind() -> None:
    message = b'{"text":"BTCUSDT","number":1.5,"parts":[{"anyNumber":3}],"pairs":[["1","2"]]}'
    broken = message.replace(b'"2"', b'"x"')
    decode = decoder_of(Message)
    before = sys.getrefcount(Message), sys.getrefcount(Part), sys.getrefcount(None)
    for _ in range(1000):
        decode(message)
        outcome(decode, broken)
    after = sys.getrefcount(Message), sys.getrefcount(Part), sys.getrefcount(None)
    assert all(abs(old - new) < 100 for old, new in zip(before, after, strict=True))
