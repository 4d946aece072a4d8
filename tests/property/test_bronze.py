"""For all records: envelope and back, JSON text and back, one identity per event."""

import math
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from tardis_machine.bronze.cases import case_of
from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import identity, parse_event
from tardis_machine.bronze.series import Origin
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines, encode_lines
from tardis_machine.model.numbers import whole
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    BookSnapshot,
    BookTicker,
    DerivativeTicker,
    Liquidation,
    OptionSummary,
    SnapshotLevel,
    Trade,
    TradeBar,
)
from tardis_machine.model.time import ms_text, us_text

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""

INGEST_US = 1_709_251_200_000_000
# Year 1 to 9999, which is what a Protobuf timestamp may hold.
MICROSECONDS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)

texts = st.text(max_size=20)
numbers = st.floats(allow_nan=False, allow_infinity=False)
steps = numbers.map(whole)
counts = st.integers(-(2**63), 2**63 - 1)
times = st.one_of(
    MICROSECONDS.map(us_text), MICROSECONDS.map(lambda microseconds: ms_text(microseconds // 1000))
)
sides = st.sampled_from(("buy", "sell", "unknown"))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.just(UNSET) | strategy


def build(record_type: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    common = {"exchange": texts, "local_timestamp": times}
    if "symbol" in record_type.__struct_fields__:
        common |= {"symbol": texts, "timestamp": times}
    return st.builds(record_type, **common, **fields)


def optional_numbers(record_type: type[Any]) -> dict[str, st.SearchStrategy[Any]]:
    fields = msgspec.structs.fields(record_type)
    names = [field.name for field in fields if field.default is UNSET]
    return {name: maybe(numbers) for name in names if not name.endswith("timestamp")}


levels = st.lists(st.builds(BookLevel, numbers, numbers), max_size=6)
executions: dict[str, st.SearchStrategy[Any]] = {
    "id": maybe(texts),
    "price": numbers,
    "amount": numbers,
    "side": sides,
}
snapshot_names = st.sampled_from(("quote", "quote_10s", "book_snapshot_5_100ms", "")) | texts


@st.composite
def snapshot_side(draw: st.DrawFn) -> list[SnapshotLevel]:
    """Levels that exist, then empty ones."""
    present = draw(st.lists(st.builds(SnapshotLevel, numbers, numbers), max_size=5))
    return present + [SnapshotLevel()] * draw(st.integers(0, 3))


@st.composite
def snapshots(draw: st.DrawFn) -> BookSnapshot:
    """Snapshots whose sides are as long as the depth, or shorter, or longer."""
    bids, asks = draw(snapshot_side()), draw(snapshot_side())
    depth = draw(st.sampled_from((len(bids), len(asks), 0, 5)))
    made: BookSnapshot = draw(
        build(
            BookSnapshot,
            name=snapshot_names,
            depth=st.just(depth),
            interval=steps,
            grouping=maybe(steps),
            bids=st.just(bids),
            asks=st.just(asks),
        )
    )
    return made


bar_numbers = ("open", "high", "low", "close", "volume", "buy_volume", "sell_volume")

records: st.SearchStrategy[NormalizedRecord] = st.one_of(
    build(Trade, **executions),
    build(Liquidation, **executions),
    build(BookChange, is_snapshot=st.booleans(), bids=levels, asks=levels),
    build(BookTicker, **optional_numbers(BookTicker)),
    build(DerivativeTicker, funding_timestamp=maybe(times), **optional_numbers(DerivativeTicker)),
    build(
        OptionSummary,
        option_type=st.sampled_from(("call", "put")),
        strike_price=numbers,
        expiration_date=times,
        underlying_index=texts,
        **optional_numbers(OptionSummary),
    ),
    snapshots(),
    build(
        TradeBar,
        name=texts,
        interval=steps,
        kind=st.sampled_from(("time", "volume", "tick")),
        trades=counts,
        vwap=st.none() | numbers,
        open_timestamp=times,
        close_timestamp=times,
        **dict.fromkeys(bar_numbers, numbers),
    ),
    build(FeedError, details=texts, subsequent_errors_count=counts),
    build(Disconnect, symbols=maybe(st.lists(texts, max_size=3))),
)


def encoder(origin: Origin = Origin.REPLAY) -> Encoder:
    return Encoder("producer-1", origin, {"request_id": "r-1"})


@patient
@given(st.lists(records, max_size=8))
def test_records_survive_the_envelope(originals: list[NormalizedRecord]) -> None:
    envelopes = encoder().encode(originals, INGEST_US)
    decoded = Decoder().decode(envelope.data for envelope in envelopes)
    assert decoded == originals
    # Equality takes 0.0 for -0.0 and 1 for 1.0; their text does not.
    assert encode_lines(decoded) == encode_lines(originals)


@patient
@given(st.lists(records, max_size=8))
def test_records_survive_json(originals: list[NormalizedRecord]) -> None:
    text = encode_lines(originals)
    assert decode_lines(text) == originals
    assert encode_lines(decode_lines(text)) == text


@patient
@given(numbers, st.booleans())
def test_sign_of_zero_survives_the_envelope(amount: float, is_negative: bool) -> None:
    zero = math.copysign(0.0, -1.0 if is_negative else 1.0)
    time = us_text(INGEST_US)
    trade = Trade(
        symbol="a",
        exchange="b",
        price=zero,
        amount=amount,
        side="buy",
        timestamp=time,
        local_timestamp=time,
    )
    (envelope,) = encoder().encode([trade], INGEST_US)
    (decoded,) = Decoder().decode([envelope.data])
    assert isinstance(decoded, Trade)
    assert math.copysign(1.0, decoded.price) == math.copysign(1.0, zero)


@patient
@given(st.lists(records, max_size=12), st.integers(1, 5), st.sampled_from(tuple(Origin)))
def test_identities_are_distinct_and_independent_of_chunks(
    originals: list[NormalizedRecord], chunk: int, origin: Origin
) -> None:
    # Repeating the records makes sure that some share everything but their position.
    stream = originals + originals
    at_once = encoder(origin).encode(stream, INGEST_US)
    chunked = encoder(origin)
    in_chunks = [
        envelope
        for start in range(0, len(stream), chunk)
        for envelope in chunked.encode(stream[start : start + chunk], INGEST_US)
    ]
    identities = [envelope.identity for envelope in at_once]
    assert [envelope.identity for envelope in in_chunks] == identities
    assert len(set(identities)) == len(identities)
    assert [identity(parse_event(envelope.data)) for envelope in at_once] == identities


@patient
@given(st.lists(records, max_size=12), st.data())
def test_identity_does_not_depend_on_what_else_was_requested(
    originals: list[NormalizedRecord], data: st.DataObject
) -> None:
    stream = originals + originals
    cases = [case_of(record) for record in stream]
    wanted = data.draw(st.sets(st.sampled_from(cases)) if cases else st.just(set()))
    everything = encoder().encode(stream, INGEST_US)
    alone = encoder().encode(
        [record for record, case in zip(stream, cases, strict=True) if case in wanted], INGEST_US
    )
    expected = [envelope.identity for envelope in everything if envelope.series.case in wanted]
    assert [envelope.identity for envelope in alone] == expected


@patient
@given(st.binary(max_size=200))
def test_any_bytes_give_a_record_or_an_envelope_error(data: bytes) -> None:
    (outcome,) = Decoder().decode_each([data])
    assert isinstance(outcome, (NormalizedRecord, EnvelopeError))


@patient
@given(records, st.data())
def test_damaged_envelope_gives_a_record_or_an_envelope_error(
    record: NormalizedRecord, data: st.DataObject
) -> None:
    (envelope,) = encoder().encode([record], INGEST_US)
    damaged = bytearray(envelope.data)
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] = data.draw(st.integers(0, 255))
    (outcome,) = Decoder().decode_each([bytes(damaged)])
    assert isinstance(outcome, (NormalizedRecord, EnvelopeError))
