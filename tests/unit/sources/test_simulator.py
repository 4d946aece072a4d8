import hashlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import zstandard

from tardis_machine.model.errors import RequestError, SettingsError, UnknownNameError
from tardis_machine.model.time import parse_us
from tardis_machine.sources.simulator import (
    Progress,
    SimulatorSettings,
    simulate,
    simulate_minutes,
    simulated_exchanges,
)
from tests.unit.sources.simulated_books import lines_of, messages_of

ALL_CHANNELS = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
EXCHANGES = ("bitmex", "binance-futures", "deribit", "coinbase")

PINNED_DIGESTS = {
    "bitmex": "df157f5add70acec",
    "binance-futures": "ee11a46e4f5ce9be",
    "coinbase": "9734851266b6ffc2",
    "binance": "e13b31fdb1fead15",
}

DIGEST_PROGRAM = """
import hashlib
from tardis_machine.sources.simulator import *
settings = SimulatorSettings(minutes=1, rate=20, with_gaps=True)
for exchange in ("bitmex", "binance-futures", "binance", "deribit", "coinbase"):
    for minute in simulate_minutes(settings, exchange):
        print(exchange, hashlib.sha256(minute.content).hexdigest())
"""


def files_of(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def contents_of(settings: SimulatorSettings, exchange: str) -> list[bytes]:
    return [minute.content for minute in simulate_minutes(settings, exchange)]


def test_slices_lie_where_the_cache_looks_for_all_channels(tmp_path: Path) -> None:
    simulate(
        SimulatorSettings(
            out=tmp_path, start="2024-03-01T23:59", minutes=2, exchanges=("bitmex",), rate=5
        )
    )

    assert sorted(files_of(tmp_path)) == [
        f"feeds/bitmex/{ALL_CHANNELS}/2024/03/01/23/59.json.zst",
        f"feeds/bitmex/{ALL_CHANNELS}/2024/03/02/00/00.json.zst",
    ]


def test_slice_decompresses_to_the_simulated_lines(tmp_path: Path) -> None:
    settings = SimulatorSettings(out=tmp_path, minutes=1, exchanges=("coinbase",), rate=5)

    simulate(settings)

    (compressed,) = files_of(tmp_path).values()
    content = zstandard.ZstdDecompressor().decompress(compressed)
    assert [content] == contents_of(settings, "coinbase")


def test_same_seed_gives_the_same_files_also_over_an_earlier_run(tmp_path: Path) -> None:
    for name, seed in (("once", 7), ("twice", 8), ("twice", 7)):
        simulate(
            SimulatorSettings(out=tmp_path / name, minutes=2, rate=20, seed=seed, with_gaps=True)
        )

    assert files_of(tmp_path / "once") == files_of(tmp_path / "twice")


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_other_seed_gives_other_bytes(exchange: str) -> None:
    first, second = (
        contents_of(SimulatorSettings(minutes=1, rate=5, seed=seed), exchange) for seed in (1, 2)
    )

    assert first != second


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_longer_run_starts_with_the_shorter_one(exchange: str) -> None:
    short, long = (
        contents_of(SimulatorSettings(minutes=minutes, rate=5, with_gaps=True), exchange)
        for minutes in (3, 5)
    )

    assert long[:3] == short


def test_symbol_does_not_depend_on_the_symbols_beside_it() -> None:
    alone, together = (
        lines_of(SimulatorSettings(minutes=1, rate=5, symbols=symbols), "bitmex")
        for symbols in (("XBTUSD",), ("ETHUSD", "XBTUSD"))
    )

    assert [line for line in together if '"XBTUSD"' in line] == alone


def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", DIGEST_PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "1234")
    }

    assert len(outputs) == 1


def test_bytes_stay_what_they_were() -> None:
    # Who keeps results of simulated data relies on it: a change of it must be on purpose.
    # Deribit is left out: its option prices use logarithms, which differ between C libraries.
    settings = SimulatorSettings(minutes=1, rate=5, with_gaps=True)

    digests = {
        exchange: hashlib.sha256(b"".join(contents_of(settings, exchange))).hexdigest()[:16]
        for exchange in PINNED_DIGESTS
    }

    assert digests == PINNED_DIGESTS


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("rate", [0.5, 300])
def test_line_is_a_local_time_and_compact_json_in_order_of_time(exchange: str, rate: float) -> None:
    lines = lines_of(SimulatorSettings(minutes=1, rate=rate), exchange)

    times = [line[:28] for line in lines]
    assert times == sorted(times)
    assert all(line[19] == "." and line[27:29] == "Z " for line in lines)
    for line in lines:
        message = line[29:]
        msgspec.json.decode(message)
        assert not set(message) & set(" \t\r\n")


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_minutes_hold_only_their_own_local_times(exchange: str) -> None:
    contents = contents_of(
        SimulatorSettings(start="2024-03-01T10:07", minutes=3, rate=10), exchange
    )

    for number, content in enumerate(contents):
        starts = {line[:17].decode() for line in content.splitlines() if line}
        assert starts == {f"2024-03-01T10:{7 + number:02d}:"}


def test_day_starts_with_snapshots_without_a_disconnect() -> None:
    lines = lines_of(SimulatorSettings(start="2024-03-01T23:59", minutes=2, rate=5), "deribit")

    snapshots = [line[:20] for line in lines if '"type":"snapshot"' in line]
    assert snapshots == ["2024-03-01T23:59:00."] * 5 + ["2024-03-02T00:00:00."] * 5
    assert "" not in lines


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_gap_leaves_a_marker_and_a_pause_before_new_messages(exchange: str) -> None:
    lines = lines_of(SimulatorSettings(minutes=8, rate=10, with_gaps=True), exchange)

    markers = [number for number, line in enumerate(lines) if not line]
    assert len(markers) == 3
    for number in markers:
        before, after = (parse_us(lines[number + step][:28]) for step in (-1, 1))
        assert after - before > 100_000


def test_run_without_gaps_has_no_marker() -> None:
    assert all(lines_of(SimulatorSettings(minutes=4, rate=5), "bitmex"))


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_rate_is_kept_on_average(exchange: str) -> None:
    symbols = ("BTC-PERPETUAL",) if exchange == "deribit" else ("btc-usd",)
    settings = SimulatorSettings(minutes=10, rate=20, symbols=symbols)

    messages = sum(minute.messages for minute in simulate_minutes(settings, exchange))

    assert 0.7 < messages / (10 * 60 * 20) < 1.4


def test_symbols_go_to_the_exchanges_they_name() -> None:
    symbols = ("bitmex:solusd", "doge-usd")

    bitmex = messages_of(SimulatorSettings(minutes=1, rate=5, symbols=symbols), "bitmex")
    coinbase = messages_of(SimulatorSettings(minutes=1, rate=5, symbols=symbols), "coinbase")

    assert {item["symbol"] for message in bitmex for item in message["data"]} == {
        "SOLUSD",
        "DOGE-USD",
    }
    assert {message.get("product_id", "DOGE-USD") for message in coinbase} == {"DOGE-USD"}


def test_unknown_symbol_trades_at_a_price_of_its_own() -> None:
    settings = SimulatorSettings(minutes=1, rate=20, symbols=("fooobarusdt", "quxusdt"))

    trades = [
        message["data"]
        for message in messages_of(settings, "binance-futures")
        if message["stream"].endswith("@trade")
    ]

    prices = {trade["s"]: float(trade["p"]) for trade in trades}
    assert prices.keys() == {"FOOOBARUSDT", "QUXUSDT"}
    assert 0 < prices["FOOOBARUSDT"] != prices["QUXUSDT"] > 0


def test_unknown_exchange_is_refused_with_the_nearest_before_anything_is_written(
    tmp_path: Path,
) -> None:
    settings = SimulatorSettings(out=tmp_path, exchanges=("bitmex", "binance-future"))

    with pytest.raises(UnknownNameError, match=r"Did you mean 'binance-futures'\?") as raised:
        simulate(settings)

    assert raised.value.valid == simulated_exchanges()
    assert set(EXCHANGES) < set(simulated_exchanges())
    assert not files_of(tmp_path)


def test_symbol_of_an_unknown_exchange_is_refused(tmp_path: Path) -> None:
    settings = SimulatorSettings(out=tmp_path, symbols=("bitmax:XBTUSD",))

    with pytest.raises(UnknownNameError, match="bitmax"):
        simulate(settings)


def test_settings_name_every_problem_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        SimulatorSettings(minutes=0, rate=0, start="soon", symbols=('X"Y',))

    assert [problem.split()[0] for problem in raised.value.problems] == [
        "minutes",
        "rate",
        "start",
        "symbol",
    ]


def test_start_inside_a_minute_is_refused() -> None:
    with pytest.raises(SettingsError, match="whole minute"):
        SimulatorSettings(start="2024-03-01T00:00:30")


def test_progress_reports_every_slice_and_the_totals(tmp_path: Path) -> None:
    reports: list[Progress] = []
    settings = SimulatorSettings(
        out=tmp_path, minutes=2, rate=5, exchanges=("coinbase", "bitmex", "coinbase")
    )

    result = simulate(settings, reports.append)

    assert [(report.exchange, report.slices) for report in reports] == [
        ("coinbase", 1),
        ("coinbase", 2),
        ("bitmex", 3),
        ("bitmex", 4),
    ]
    assert result == reports[-1]
    assert result.slices_total == 4
    assert result.bytes_written == sum(len(content) for content in files_of(tmp_path).values())
    assert result.messages == sum(
        len(lines_of(settings, exchange)) for exchange in ("coinbase", "bitmex")
    )


def test_failed_write_leaves_no_partial_file(tmp_path: Path) -> None:
    settings = SimulatorSettings(out=tmp_path, minutes=1, rate=5, exchanges=("bitmex",))
    simulate(settings)
    (name,) = files_of(tmp_path)
    path = tmp_path / name
    path.unlink()
    path.mkdir()

    with pytest.raises(OSError, match="directory"):
        simulate(settings)

    assert not files_of(tmp_path)


def test_okex_slices_hold_what_its_newest_mappers_read() -> None:
    with pytest.raises(RequestError, match="since 2026-05-21: choose a start"):
        simulate_minutes(SimulatorSettings(minutes=1), "okex-swap")

    settings = SimulatorSettings(minutes=1, rate=5, start="2026-05-21", with_gaps=True)
    messages = messages_of(settings, "okex-swap")
    channels = {message["arg"]["channel"] for message in messages}
    assert {"books", "bbo-tbt", "trades-all", "tickers", "mark-price"} < channels
    assert {"index-tickers", "funding-rate", "open-interest"} < channels


def test_kraken_slices_have_the_format_of_their_time() -> None:
    with pytest.raises(RequestError, match="since 2026-07-10: choose a start"):
        simulate_minutes(SimulatorSettings(minutes=1), "kraken")

    settings = SimulatorSettings(minutes=1, rate=5, start="2026-07-10", with_gaps=True)
    messages = messages_of(settings, "kraken")
    found = {(message["channel"], message["type"]) for message in messages}
    assert found == {
        ("book", "snapshot"),
        ("book", "update"),
        ("ticker", "snapshot"),
        ("ticker", "update"),
        ("trade", "update"),
    }
