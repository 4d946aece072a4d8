"""For all records: the compiled encoder does what the one in Python does, byte for byte."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tardis_machine.bronze import envelope
from tardis_machine.bronze.blocks import MakeBlockEncoder, PythonBlockEncoder
from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.compiled_blocks import CompiledBlockEncoder, identities
from tardis_machine.bronze.content import Content
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.series import Origin
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord
from tardis_machine.model.records import BookChange, BookLevel, Liquidation, SnapshotLevel, Trade
from tests.property.test_bronze import INGEST_US, patient, records

SECOND = "2024-03-01T00:00:0"
# Few and near each other, so that seconds repeat, and texts that only nearly are times.
near_times = st.builds(
    "{}{}.{}".format,
    st.just(SECOND),
    st.integers(0, 9),
    st.sampled_from(("000Z", "120Z", "120456Z", "000001Z", "12Z", "12xZ", "1204567Z", "120+", "")),
) | st.sampled_from(
    ("", "yesterday", f"{SECOND}0Z", "+012345-01-01T00:00:00.000Z", "é" * 24, "\0" * 20 + "000Z")
)
odd_numbers = st.sampled_from((0.0, -0.0, 1.5, 1, True, 2**70, float("inf"), float("nan"), "1"))
zeros = st.sampled_from((0.0, -0.0, 1.5))
odd_levels = st.lists(st.builds(BookLevel, odd_numbers, odd_numbers), max_size=4)
common: dict[str, st.SearchStrategy[Any]] = {
    "exchange": st.sampled_from(("bitmex", "börse", "\ud800")),
    "symbol": st.sampled_from(("XBTUSD", "a", "")),
    "timestamp": near_times,
    "local_timestamp": near_times,
}
executions: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from(("", "1", "é", "\ud800", "x" * 200, 7)),
    "price": odd_numbers,
    "amount": odd_numbers,
    "side": st.sampled_from(("buy", "sell", "unknown", "both", "")),
}
usual_times = st.integers(0, 9).map(lambda second: f"{SECOND}{second}.120Z")
usual = {"timestamp": usual_times, "local_timestamp": usual_times}
zero_levels = st.lists(st.builds(BookLevel, zeros, zeros), max_size=2)
zero_records: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        Trade,
        **common | usual,
        price=zeros,
        amount=zeros,
        side=st.sampled_from(("buy", "sell", "unknown")),
    ),
    st.builds(
        BookChange, **common | usual, is_snapshot=st.booleans(), bids=zero_levels, asks=zero_levels
    ),
)
odd_records: st.SearchStrategy[Any] = st.one_of(
    st.builds(Trade, **common, **executions),
    st.builds(Liquidation, **common, **executions),
    st.builds(
        BookChange,
        **common,
        is_snapshot=st.sampled_from((True, False, 1)),
        bids=odd_levels | odd_levels.map(tuple),
        asks=odd_levels | st.just([SnapshotLevel(1.0, 2.0)]),
    ),
    st.just(1),
)


def outcome(
    make_blocks: MakeBlockEncoder, stream: Sequence[NormalizedRecord], chunk: int, **options: Any
) -> tuple[list[Any], list[Any], Any, Any]:
    """Encode a stream in chunks: envelopes, rejections, what was left out, counts."""
    encoder = Encoder("producer-1", Origin.REALTIME, make_blocks=make_blocks, **options)
    made: list[Envelope | None] = []
    rejected: list[tuple[int, str]] = []

    def reject(place: int, error: EnvelopeError) -> None:
        rejected.append((place, str(error)))

    for start in range(0, len(stream), chunk):
        made += encoder.encode_each(stream[start : start + chunk], INGEST_US, reject)
    fields = [each and (each.data, each.local_us, each.ordinal, each.series.label) for each in made]
    counts = encoder.ordinals.older, encoder.ordinals.recent
    return fields, rejected, encoder.left_out, counts


def assert_equal(stream: Sequence[NormalizedRecord], chunk: int = 5, **options: Any) -> None:
    expected = outcome(PythonBlockEncoder, stream, chunk, **options)
    assert outcome(CompiledBlockEncoder, stream, chunk, **options) == expected


@patient
@given(st.lists(records, max_size=8), st.integers(1, 5))
def test_records_give_the_same_bytes(stream: list[NormalizedRecord], chunk: int) -> None:
    assert_equal(stream + stream, chunk)


@patient
@given(st.lists(odd_records, max_size=12), st.integers(1, 5))
def test_unusual_records_give_the_same_bytes_or_rejections(stream: list[Any], chunk: int) -> None:
    assert_equal(stream + stream, chunk)


@patient
@given(st.lists(zero_records, max_size=12), st.integers(1, 5))
def test_zeros_give_the_same_bytes(stream: list[NormalizedRecord], chunk: int) -> None:
    assert_equal(stream + stream, chunk)


@patient
@given(st.lists(records, max_size=8), st.sets(st.sampled_from(tuple(PayloadCase))))
def test_cases_that_nobody_wants_are_counted_alike(
    stream: list[NormalizedRecord], cases: set[PayloadCase]
) -> None:
    assert_equal(stream + stream, cases=cases)


@patient
@given(st.integers(-5, 5), st.integers(0, 5))
def test_partial_content_is_the_same(start: int, length: int) -> None:
    stream = [
        Trade(
            exchange="bitmex",
            symbol="XBTUSD",
            price=1.5,
            amount=2.0,
            side="buy",
            timestamp=f"{SECOND}{number}.000Z",
            local_timestamp=f"{SECOND}{number}.000000Z",
        )
        for number in range(5)
    ]
    partial_us = INGEST_US + start * 1_000_000, INGEST_US + (start + length) * 1_000_000
    content = Content(state_from_us=INGEST_US, partial_us={PayloadCase.TRADE: partial_us})
    assert_equal(stream, contents={"bitmex": content})


@patient
@given(st.lists(records, max_size=8), st.integers(0, 2**40), st.integers(-(2**62), 2**62))
def test_identities_are_the_same(
    stream: list[NormalizedRecord], ordinal: int, local_us: int
) -> None:
    made = Encoder("börse", Origin.REALTIME).encode(stream + stream, INGEST_US)
    made += [structs.replace(each, ordinal=ordinal, local_us=local_us) for each in made]
    made += [structs.replace(each, ordinal=1, local_us=-local_us) for each in made]
    assert identities(made) == envelope.identities(made)
