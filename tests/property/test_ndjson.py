"""Lines that compiled code writes against those of msgspec, byte for byte."""

import struct
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tardis_machine.model.control import Disconnect
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import (
    BlankTrade,
    BookChange,
    BookLevel,
    EncodedBookChange,
    Liquidation,
    Trade,
)

by_msgspec = msgspec.json.Encoder().encode_lines

texts = st.sampled_from(["BTCUSDT", "ETH-PERPETUAL", "", "x" * 70]) | st.text(max_size=40)
decimals = st.builds(lambda digits, places: digits / 10**places, st.integers(), st.integers(0, 12))
bits = st.binary(min_size=8, max_size=8).map(lambda data: struct.unpack("d", data)[0])
numbers = st.one_of(
    st.floats(),
    bits,
    decimals,
    st.builds(round, st.floats(-1e9, 1e9), st.integers(0, 9)),
    st.integers(-(2**63), 2**63),
    st.sampled_from([0.0, -0.0, 1e14, 1e15, 1e16, 1e-5, 9.999e-6, 0.001, 5e-324, 1 / 3]),
    st.none(),
)
levels = st.builds(BookLevel, numbers, numbers)
sides = st.lists(levels, max_size=4) | st.lists(levels, max_size=2).map(tuple)
raws = st.sampled_from([Raw(b"[]"), Raw(b'[{"price":1.50,"amount":2}]'), Raw(memoryview(b"[1]"))])
times = {"timestamp": texts, "local_timestamp": texts}
names = {"symbol": texts, "exchange": texts}
records: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        Trade,
        **names,
        id=texts | st.just(UNSET),
        price=numbers,
        amount=numbers,
        side=st.sampled_from(["buy", "sell", "unknown"]),
        **times,
    ),
    st.builds(BookChange, **names, is_snapshot=st.booleans(), bids=sides, asks=sides, **times),
    st.builds(
        EncodedBookChange,
        **names,
        is_snapshot=st.booleans() | st.none(),
        bid_text=raws,
        ask_text=raws,
        **times,
    ),
    st.builds(BlankTrade, **names, local_timestamp=texts),
    st.builds(Disconnect, exchange=texts, local_timestamp=texts),
    st.builds(Liquidation, **names, price=numbers, amount=numbers, side=st.just("buy"), **times),
)


@settings(max_examples=500)
@given(st.lists(records, max_size=12))
def test_lines_are_those_of_msgspec(lines: list[Any]) -> None:
    try:
        expected = by_msgspec(lines)
    except UnicodeEncodeError:
        return
    assert encode_lines(lines) == expected
    assert encode_lines(tuple(lines)) == expected


@settings(max_examples=2000)
@given(numbers)
@example(61000.5)
@example(0.1 + 0.2)
@example(123456789012345.0)
@example(99999999999999.9)
@example(0.07)
@example(-1234.5678)
def test_numbers_are_those_of_msgspec(number: float) -> None:
    change = BookChange(
        symbol="x",
        exchange="y",
        is_snapshot=False,
        bids=[BookLevel(number, 0.0)],
        asks=[],
        timestamp="",
        local_timestamp="",
    )
    assert encode_lines([change]) == by_msgspec([change])


def test_long_lines_fit() -> None:
    change = BookChange(
        symbol="x" * 100_000,
        exchange="y",
        is_snapshot=True,
        bids=[BookLevel(61000.25, 1e300)] * 100_000,
        asks=[BookLevel(61000.25, 1.5)] * 1000,
        timestamp="",
        local_timestamp="",
    )
    for _ in range(2):
        assert encode_lines([change, change]) == by_msgspec([change, change])


def test_what_msgspec_refuses_is_refused() -> None:
    for wrong in (object(), "\ud800"):
        trade = Trade(
            symbol="x",
            exchange="y",
            price=wrong,  # type: ignore[arg-type]
            amount=1.0,
            side="buy",
            timestamp="",
            local_timestamp="",
        )
        for encode in (encode_lines, by_msgspec):
            try:
                encode([trade])
            except (TypeError, UnicodeEncodeError):
                continue
            raise AssertionError(wrong)
    assert encode_lines([]) == b""
