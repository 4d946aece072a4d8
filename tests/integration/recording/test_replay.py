"""A recorded live session replays to the same normalized messages."""

from pathlib import Path

import pytest

from tardis_machine.model.control import Disconnect
from tardis_machine.model.records import AnyBookChange, Trade
from tardis_machine.model.requests import StreamRequest
from tardis_machine.sources.slices import read_slice
from tests.integration.exchange.clients import Gateway, running
from tests.integration.recording.sessions import (
    Listener,
    recorded,
    replayed,
    to_the_millisecond,
)
from tests.servers.exchanges import until

SYMBOLS = {
    "bitmex": ["XBTUSD", "ETHUSD"],
    "binance-futures": ["btcusdt", "ethusdt"],
    "deribit": ["BTC-PERPETUAL"],
    "coinbase": ["BTC-USD", "ETH-USD"],
}
FAULTS = ("gap", "close", "gap", "garbage")
RECORDS_BETWEEN = 150
BUSY = {"rate": 400.0}
TYPES = ["trade", "book_change", "derivative_ticker", "book_snapshot_2_100ms", "trade_bar_1s"]


def wanted(exchange: str) -> StreamRequest:
    types = [name for name in TYPES if exchange != "coinbase" or name != "derivative_ticker"]
    return StreamRequest(exchange=exchange, symbols=SYMBOLS[exchange], data_types=types)


async def make_faults(gateway: Gateway, listener: Listener) -> None:
    """Let the exchange fail in several ways, each time after some records."""
    for kind in FAULTS:
        count = len(listener.records)
        await until(lambda count=count: len(listener.records) > count + RECORDS_BETWEEN)
        async with gateway.http.post(f"http://{gateway.place}/faults", json={"kind": kind}) as got:
            assert got.status == 200
    count, lost = len(listener.records), listener.disconnects
    await until(lambda: listener.disconnects > lost and len(listener.records) > count + 300)


@pytest.mark.parametrize("exchange", SYMBOLS)
async def test_session_with_faults_replays_to_the_same_messages(
    exchange: str, tmp_path: Path
) -> None:
    request = wanted(exchange)
    async with (
        running(exchange, simulate=BUSY) as gateway,
        recorded(gateway.place, tmp_path) as session,
    ):
        listener = session.join(request)
        await make_faults(gateway, listener)
    live = to_the_millisecond(listener.records)
    again = to_the_millisecond(await replayed(tmp_path, request))
    assert again[: len(live)] == live
    # What was mapped and not handed on yet when the session ended.
    assert len(again) - len(live) < 100


async def test_loss_of_one_socket_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    request = wanted("binance-futures")
    async with (
        running("binance-futures", simulate=BUSY) as gateway,
        recorded(gateway.place, tmp_path) as session,
    ):
        listener = session.join(request)
        await until(lambda: len(listener.records) > RECORDS_BETWEEN)
        for connection in (await gateway.get("connections"))["open"]:
            lost, count = listener.disconnects, len(listener.records)
            fault = {"kind": "close", "connection": connection["connection"]}
            async with gateway.http.post(f"http://{gateway.place}/faults", json=fault) as got:
                assert got.status == 200
            await until(lambda lost=lost: listener.disconnects > lost)
            await until(lambda count=count: len(listener.records) > count + RECORDS_BETWEEN)
    live = to_the_millisecond(listener.records)
    again = to_the_millisecond(await replayed(tmp_path, request))
    assert listener.disconnects >= 2
    assert again[: len(live)] == live


async def test_what_nobody_followed_for_a_while_is_a_disconnect(tmp_path: Path) -> None:
    both = StreamRequest(exchange="bitmex", symbols=SYMBOLS["bitmex"], data_types=["book_change"])
    one = StreamRequest(exchange="bitmex", symbols=["XBTUSD"], data_types=["trade"])
    async with (
        running("bitmex", simulate=BUSY) as gateway,
        recorded(gateway.place, tmp_path) as session,
    ):
        trades = session.join(one)
        for _ in range(2):
            books = session.join(both)
            await until(lambda books=books: len(books.records) > 20)
            session.leave(books)
        await until(lambda: len(trades.records) > 20)
    again = await replayed(tmp_path, both)
    kinds = [type(record).__name__ for record in again]
    snapshots = [
        record.symbol
        for record in again
        if isinstance(record, AnyBookChange) and record.is_snapshot
    ]
    assert kinds.count("Disconnect") == 2
    assert sorted(snapshots) == ["ETHUSD", "ETHUSD", "XBTUSD", "XBTUSD"]
    assert to_the_millisecond(await replayed(tmp_path, one)) == to_the_millisecond(trades.records)


async def test_session_that_ends_and_begins_again_within_a_minute_is_one_recording(
    tmp_path: Path,
) -> None:
    request = StreamRequest(exchange="bitmex", symbols=["XBTUSD"], data_types=["trade"])
    live = []
    async with running("bitmex", simulate=BUSY) as gateway:
        for _ in range(2):
            async with recorded(gateway.place, tmp_path) as session:
                listener = session.join(request)
                await until(lambda listener=listener: len(listener.records) > 20)
            live += listener.records
    again = await replayed(tmp_path, request)
    assert sum(isinstance(record, Disconnect) for record in again) == 1
    seen = to_the_millisecond(live)
    assert [record for record in to_the_millisecond(again) if record in seen] == seen


@pytest.mark.parametrize(
    ("exchange", "snapshot"),
    [("binance-futures", b'"lastUpdateId"'), ("deribit", b'"type":"snapshot"')],
)
async def test_books_are_taken_anew_for_the_recording_without_a_disconnect(
    exchange: str, snapshot: bytes, tmp_path: Path
) -> None:
    request = StreamRequest(
        exchange=exchange, symbols=SYMBOLS[exchange][:1], data_types=["book_change"]
    )
    async with (
        running(exchange, simulate=BUSY) as gateway,
        recorded(gateway.place, tmp_path) as session,
    ):
        listener = session.join(request)
        await until(lambda: len(listener.records) > RECORDS_BETWEEN)
        session.source.refresh_books()
        await until(lambda: len(listener.records) > RECORDS_BETWEEN * 8)
    live = to_the_millisecond(listener.records)
    again = to_the_millisecond(await replayed(tmp_path, request))
    assert again[: len(live)] == live
    assert listener.disconnects == 0
    slices = sorted((tmp_path / "feeds" / exchange).rglob("*.zst"))
    recorded_bytes = b"".join(piece for path in slices for piece in read_slice(path))
    assert recorded_bytes.count(snapshot) == 2


async def test_feeds_that_overlap_are_recorded_once(tmp_path: Path) -> None:
    elder = StreamRequest(exchange="bitmex", symbols=["XBTUSD"], data_types=["trade"])
    younger = StreamRequest(
        exchange="bitmex",
        symbols=SYMBOLS["bitmex"],
        data_types=["trade"],
        timeout_interval_ms=60_000,
    )
    async with (
        running("bitmex", simulate=BUSY) as gateway,
        recorded(gateway.place, tmp_path) as session,
    ):
        first, second = session.join(elder), session.join(younger)
        for kind in ("close", "gap"):
            count = len(first.records), len(second.records)
            await until(
                lambda count=count: (
                    len(first.records) > count[0] + 50 and len(second.records) > count[1] + 100
                )
            )
            async with gateway.http.post(
                f"http://{gateway.place}/faults", json={"kind": kind}
            ) as response:
                assert response.status == 200
    again = [record for record in await replayed(tmp_path, younger) if isinstance(record, Trade)]
    ids = [(trade.symbol, trade.id) for trade in again]
    assert len(ids) == len(set(ids))
    for listener, symbol in ((first, "XBTUSD"), (second, "ETHUSD")):
        live = [
            trade.id
            for trade in listener.records
            if isinstance(trade, Trade) and trade.symbol == symbol
        ]
        assert [trade.id for trade in again if trade.symbol == symbol][: len(live)] == live
