import msgspec
import pytest

from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.records import (
    BookChange,
    BookLevel,
    BookSnapshot,
    DerivativeTicker,
    EncodedBookChange,
    EncodedBookSnapshot,
    OptionSummary,
    Record,
    SnapshotLevel,
    Trade,
    TradeBar,
    decoded,
    with_fields,
)

EVENT = "2024-03-01T00:00:00.123Z"
ARRIVAL = "2024-03-01T00:00:00.456789Z"

TRADE = Trade(
    symbol="XBTUSD",
    exchange="bitmex",
    id="1",
    price=60_000.5,
    amount=100.0,
    side="buy",
    timestamp=EVENT,
    local_timestamp=ARRIVAL,
)
BAR = TradeBar(
    symbol="XBTUSD",
    exchange="bitmex",
    name="trade_bar_1s",
    interval=1000,
    kind="time",
    open=1.0,
    high=2.0,
    low=1.0,
    close=2.0,
    volume=3.0,
    buy_volume=3.0,
    sell_volume=0.0,
    trades=2,
    vwap=None,
    open_timestamp=EVENT,
    close_timestamp=EVENT,
    local_timestamp=ARRIVAL,
    timestamp=EVENT,
)
SNAPSHOT = BookSnapshot(
    symbol="XBTUSD",
    exchange="bitmex",
    name="quote",
    depth=1,
    interval=0,
    bids=[SnapshotLevel(1.0, 2.0)],
    asks=[SnapshotLevel()],
    timestamp=EVENT,
    local_timestamp=ARRIVAL,
)
OTHERS = (
    BookChange(
        symbol="XBTUSD",
        exchange="bitmex",
        is_snapshot=True,
        bids=[BookLevel(1.0, 2.0)],
        asks=[],
        timestamp=EVENT,
        local_timestamp=ARRIVAL,
    ),
    DerivativeTicker(
        symbol="XBTUSD", exchange="bitmex", mark_price=0.0, timestamp=EVENT, local_timestamp=ARRIVAL
    ),
    OptionSummary(
        symbol="BTC-1",
        exchange="deribit",
        option_type="call",
        strike_price=1.0,
        expiration_date=EVENT,
        best_bid_iv=0.5,
        underlying_index="BTC",
        timestamp=EVENT,
        local_timestamp=ARRIVAL,
    ),
    Disconnect(exchange="bitmex", local_timestamp=ARRIVAL),
    FeedError(exchange="bitmex", local_timestamp=ARRIVAL, details="x", subsequent_errors_count=2),
)


def keys(record: Record) -> list[str]:
    return list(msgspec.json.decode(msgspec.json.encode(record)))


def test_keys_come_in_the_order_of_the_api() -> None:
    assert keys(TRADE)[:4] == ["type", "symbol", "exchange", "id"]
    assert keys(TRADE)[4:] == ["price", "amount", "side", "timestamp", "localTimestamp"]
    assert keys(BAR)[-4:] == ["openTimestamp", "closeTimestamp", "localTimestamp", "timestamp"]
    assert keys(SNAPSHOT)[:6] == ["type", "symbol", "exchange", "name", "depth", "interval"]


def test_absent_fields_are_left_out_and_zero_is_not_absent() -> None:
    assert "id" not in keys(with_fields(TRADE, id=msgspec.UNSET))
    assert "markPrice" in keys(OTHERS[1])
    assert "lastPrice" not in keys(OTHERS[1])
    assert "symbols" not in keys(OTHERS[3])


def test_irregular_names_are_those_of_the_api() -> None:
    assert "bestBidIV" in keys(OTHERS[2])
    assert keys(OTHERS[4])[-1] == "subSequentErrorsCount"


def test_missing_weighted_price_is_null() -> None:
    assert msgspec.json.decode(msgspec.json.encode(BAR))["vwap"] is None


def test_level_beyond_the_book_is_an_empty_object() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SNAPSHOT))["asks"] == [{}]


@pytest.mark.parametrize("record", [TRADE, BAR, SNAPSHOT, *OTHERS], ids=lambda record: record.type)
def test_lines_are_read_back_as_they_were_written(record: Record) -> None:
    text = encode_lines([record, record])
    assert text.count(b"\n") == 2
    assert decode_lines(text) == [record, record]


def test_encoded_snapshot_writes_the_same_json() -> None:
    fields = {name: getattr(SNAPSHOT, name) for name in SNAPSHOT.__struct_fields__}
    fields["bids"] = [msgspec.Raw(b'{"price":1.0,"amount":2.0}')]
    fields["asks"] = [msgspec.Raw(b"{}")]
    encoded = EncodedBookSnapshot(**fields)
    assert msgspec.json.encode(encoded) == msgspec.json.encode(SNAPSHOT)
    assert encoded.decoded() == SNAPSHOT


def test_encoded_book_change_writes_the_same_json_and_reads_its_levels() -> None:
    plain = next(record for record in OTHERS if isinstance(record, BookChange))
    fields = {name: getattr(plain, name) for name in plain.__struct_fields__}
    bid_text, ask_text = (msgspec.Raw(msgspec.json.encode(fields.pop(n))) for n in ("bids", "asks"))
    encoded = EncodedBookChange(**fields, bid_text=bid_text, ask_text=ask_text)
    assert msgspec.json.encode(encoded) == msgspec.json.encode(plain)
    assert (encoded.bids, encoded.asks) == (plain.bids, plain.asks)
    assert decoded(encoded) == plain
    assert decoded(plain) is plain


def test_times_are_parsed_on_demand() -> None:
    assert TRADE.local_time_us - TRADE.time_us == 333_789
