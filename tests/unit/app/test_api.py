"""The Python API on recorded minutes in a cache, without a network."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

import tardis_machine
from tardis_machine import (
    BookChange,
    BookSnapshot,
    BookSnapshotSpec,
    Disconnect,
    Filter,
    RawMessage,
    Record,
    RequestError,
    SettingsError,
    SourceError,
    Trade,
    TradeBar,
    TradeBarSpec,
    combine,
    compute,
    decode_lines,
    encode_lines,
    replay,
    replay_normalized,
)
from tardis_machine.model.time import parse_us
from tardis_machine.sources.simulator.slices import slice_path, write_slice
from tests.compat.recorded import BITMEX, FROM, TO, trade

MARCH = ("bitmex", FROM, TO)
TRADES = [101, 102, 100.5]


@pytest.fixture
def archive(tmp_path: Path) -> dict[str, Any]:
    """Options of an archive that has two recorded minutes of bitmex."""
    for (exchange, minute), lines in BITMEX.items():
        write_slice(slice_path(tmp_path, exchange, parse_us(f"{minute}:00.000Z")), lines)
    return {"cache_dir": tmp_path, "offline": True}


async def listed(stream: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in stream]


def prices(records: list[Record]) -> list[float]:
    return [record.price for record in records if isinstance(record, Trade)]


async def records_of(*records: Record) -> AsyncIterator[Record]:
    """A stream that is not one of ours."""
    for record in records:
        yield record


async def test_replay_yields_messages_as_they_were_recorded(archive: dict[str, Any]) -> None:
    messages = await listed(replay(*MARCH, **archive))
    recorded = [line for line in b"".join(BITMEX.values()).splitlines() if line]
    assert [message.message for message in messages] == [line[29:] for line in recorded]
    assert messages[0] == RawMessage("2024-03-01T00:00:00.1000001Z", recorded[0][29:])
    assert messages[0].local_time_us == parse_us("2024-03-01T00:00:00.100000Z")


async def test_replay_shows_disconnects_as_none_when_asked(archive: dict[str, Any]) -> None:
    messages = await listed(replay(*MARCH, with_disconnects=True, **archive))
    assert [message is None for message in messages] == [
        *(True, False, False, False, True, False),
        *(True, False, False),
    ]


async def test_replay_narrows_to_filters(archive: dict[str, Any]) -> None:
    ether = Filter("trade", ("ETHUSD",))
    messages = await listed(replay(*MARCH, filters=[ether], **archive))
    assert len(messages) == 1
    assert b"ETHUSD" in messages[0].message


async def test_disconnects_between_filtered_messages_are_one(archive: dict[str, Any]) -> None:
    ether = Filter("trade", ("ETHUSD",))
    options = {"filters": [ether], "with_disconnects": True, **archive}
    messages = await listed(replay(*MARCH, **options))
    assert [message is None for message in messages] == [True, False]


async def test_normalized_replay_yields_typed_records(archive: dict[str, Any]) -> None:
    types = ["trade", "book_change", "trade_bar_2ticks", "quote"]
    records = await listed(replay_normalized(*MARCH, data_types=types, **archive))
    assert [type(record) for record in records] == [
        *(BookChange, BookSnapshot, Trade, BookChange, BookSnapshot),
        *(Trade, TradeBar, BookChange, BookSnapshot, Trade),
    ]
    assert records[1].bids[0].price == 100
    assert prices(records) == TRADES


async def test_single_names_may_be_given_as_a_text(archive: dict[str, Any]) -> None:
    stream = replay_normalized(*MARCH, data_types="trade", symbols="XBTUSD", **archive)
    single = await listed(stream)
    assert single
    assert {record.symbol for record in single} == {"XBTUSD"}


async def test_type_that_asks_for_nothing_is_refused(archive: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="'book_snapshot_0_1s' asks for nothing"):
        replay_normalized(*MARCH, data_types=["trade", "book_snapshot_0_1s"], **archive)


async def test_records_survive_the_way_to_the_wire_and_back(archive: dict[str, Any]) -> None:
    types = ["trade", "book_change", "book_snapshot_2_0ms", "trade_bar_1ticks"]
    stream = replay_normalized(*MARCH, data_types=types, with_disconnects=True, **archive)
    records = await listed(stream)
    assert decode_lines(encode_lines(records)) == records


async def test_chunks_hold_the_same_records(archive: dict[str, Any]) -> None:
    types = ["trade", "book_snapshot_2_0ms"]
    one_by_one = await listed(replay_normalized(*MARCH, data_types=types, **archive))
    chunks = await listed(replay_normalized(*MARCH, data_types=types, **archive).chunks())
    assert [record for chunk in chunks for record in chunk] == one_by_one
    assert len(chunks) < len(one_by_one)


async def test_symbols_and_disconnects_are_chosen_as_over_http(archive: dict[str, Any]) -> None:
    options = {"data_types": ["trade"], "with_disconnects": True, **archive}
    records = await listed(replay_normalized(*MARCH, symbols=["ethusd"], **options))
    assert [type(record) for record in records] == [Disconnect, Disconnect, Trade]


async def test_exact_range_takes_datetimes_and_cuts_inside_minutes(archive: dict[str, Any]) -> None:
    start = datetime(2024, 3, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    end = datetime(2024, 3, 1, 2, 0, 31, tzinfo=timezone(timedelta(hours=2)))
    options = {"exact_range": True, **archive}
    stream = replay_normalized("bitmex", start, end, data_types=["trade"], **options)
    assert prices(await listed(stream)) == [102]
    assert len(await listed(replay("bitmex", start, end, **options))) == 2


async def test_trimmed_levels_leave_missing_ones_out(archive: dict[str, Any]) -> None:
    options = {"data_types": ["book_snapshot_3_0ms"], **archive}
    padded = await listed(replay_normalized(*MARCH, **options))
    trimmed = await listed(replay_normalized(*MARCH, trim_levels=True, **options))
    assert (len(padded[0].bids), len(trimmed[0].bids)) == (3, 1)


async def test_cleanup_deletes_what_can_be_fetched_again_only(archive: dict[str, Any]) -> None:
    assert await listed(replay(*MARCH, auto_cleanup=True, **archive))
    assert await listed(replay(*MARCH, auto_cleanup=True, **archive))


async def test_compute_follows_each_record_with_what_it_triggers(archive: dict[str, Any]) -> None:
    source = replay_normalized(*MARCH, data_types=["trade", "book_change"], **archive)
    records = await listed(compute(source, "quote", TradeBarSpec("tick", 2)))
    same = replay_normalized(
        *MARCH, data_types=["trade", "book_change", "quote", "trade_bar_2ticks"], **archive
    )
    assert records == await listed(same)


async def test_compute_takes_any_stream_of_records(archive: dict[str, Any]) -> None:
    trades = await listed(replay_normalized(*MARCH, data_types=["trade"], **archive))
    bars = [
        record
        async for record in compute(records_of(*trades), TradeBarSpec("tick", 1, "mine"))
        if isinstance(record, TradeBar)
    ]
    assert [bar.name for bar in bars] == ["mine"] * 3


async def test_combine_merges_by_local_time(archive: dict[str, Any]) -> None:
    books = replay_normalized(*MARCH, data_types=["book_change"], **archive)
    trades = replay_normalized(*MARCH, data_types=["trade"], **archive)
    times = [record.local_time_us async for record in combine(trades, books)]
    assert times == sorted(times)
    assert len(times) == 6


async def test_combine_keeps_the_order_of_streams_at_equal_times() -> None:
    first, second = (
        Trade(
            symbol="X",
            exchange=exchange,
            price=1,
            amount=1,
            side="buy",
            timestamp="2024-03-01T00:00:00.000Z",
            local_timestamp="2024-03-01T00:00:00.000000Z",
        )
        for exchange in ("one", "two")
    )
    assert await listed(combine(records_of(first), records_of(second))) == [first, second]
    assert await listed(combine(records_of(second), records_of(first))) == [second, first]


async def test_speed_waits_between_messages(archive: dict[str, Any]) -> None:
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout(120):
        # It begins with a disconnect, which has no time of its own.
        await listed(replay(*MARCH, speed=600, with_disconnects=True, **archive))
    assert asyncio.get_running_loop().time() - started >= 60 / 600


@pytest.fixture
def long_archive(tmp_path: Path) -> dict[str, Any]:
    """Options of an archive with more than one chunk in its only minute."""
    lines = trade("00:01.000000", 1.0) * 20_000
    write_slice(slice_path(tmp_path, "bitmex", parse_us(f"{FROM}T00:00:00.000Z")), lines)
    return {"cache_dir": tmp_path, "offline": True}


async def held() -> tuple[int, list[str]]:
    """Count tasks and list open files, once what is over had its chance to end."""
    for _ in range(10):
        await asyncio.sleep(0)
    files = [file.path for file in psutil.Process().open_files() if file.path.endswith(".zst")]
    return len(asyncio.all_tasks()), files


async def test_early_end_releases_files_and_tasks(long_archive: dict[str, Any]) -> None:
    minute = ("bitmex", FROM, "2024-03-01T00:01")
    before = await held()
    async with replay_normalized(*minute, data_types=["trade"], **long_archive) as stream:
        await anext(stream)
        assert await held() > before
    async with aclosing(replay(*minute, **long_archive)) as messages:
        await anext(messages)
    bars = compute(replay_normalized(*minute, data_types=["trade"], **long_archive), "trade_bar_1s")
    async with combine(bars, records_of()) as merged:
        await anext(merged)
    assert await held() == before


async def test_stream_that_is_dropped_releases_files_and_tasks(
    long_archive: dict[str, Any],
) -> None:
    before = await held()
    stream = replay_normalized(
        "bitmex", FROM, "2024-03-01T00:01", data_types=["trade"], **long_archive
    )
    async for _ in stream:
        break
    del stream
    async with asyncio.timeout(120):
        while await held() != before:
            pass


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"data_types": ["trades"]}, "Unknown data type 'trades'. Did you mean 'trade'?"),
        ({"data_types": ["book_snapshot_-1_1s"]}, "invalid depth: -1"),
        ({"speed": 0}, 'Invalid "speed" argument: 0'),
        ({"data_types": ["option_summary"]}, "normalizeOptionsSummary: bitmex not supported"),
    ],
)
def test_bad_request_is_refused_before_anything_is_read(
    archive: dict[str, Any], changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        replay_normalized(*MARCH, **{"data_types": ["trade"], **archive, **changes})
    assert str(caught.value).startswith(text)


def test_bad_raw_request_is_refused_before_anything_is_read() -> None:
    with pytest.raises(RequestError, match=r'Invalid "from" argument: soon\.'):
        replay("bitmex", "soon", TO)
    with pytest.raises(RequestError, match=r'"filters\[\]\.channel" argument: trades\.'):
        replay(*MARCH, filters=[Filter("trades")])


def test_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match=r"unknown key 'cash_dir'. Did you mean 'cache_dir'"):
        replay(*MARCH, cash_dir="x")
    with pytest.raises(SettingsError, match="max-attempts must be an integer"):
        replay_normalized(*MARCH, data_types=["trade"], maxAttempts="many")


def test_unknown_computed_type_is_refused_with_the_patterns() -> None:
    with pytest.raises(RequestError, match=r"Unknown computed data type 'trade'\. .*quote"):
        compute(records_of(), "trade")
    with pytest.raises(RequestError, match="invalid depth"):
        compute(records_of(), BookSnapshotSpec(1_000_000, 0))


async def test_missing_minute_is_a_clear_error_after_nothing(archive: dict[str, Any]) -> None:
    with pytest.raises(
        SourceError, match=r"Offline, and the cache lacks bitmex at 2024-03-01T00:0"
    ):
        await listed(replay("bitmex", FROM, "2024-03-01T00:05", **archive))


def test_every_public_name_can_be_imported() -> None:
    for name in tardis_machine.__all__:
        assert getattr(tardis_machine, name) is not None
        assert not isinstance(getattr(tardis_machine, name), ModuleType)
    assert set(tardis_machine.__all__) == set(tardis_machine._HOMES)
    assert set(tardis_machine.__all__) <= set(dir(tardis_machine))
    with pytest.raises(AttributeError, match="no attribute 'replays'"):
        tardis_machine.replays  # noqa: B018
