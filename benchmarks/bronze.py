"""Measure the Bronze codec: events per CPU second, encode and decode.

Run with `python benchmarks/bronze.py`. The calibration lines compare machines: the cost of one
orjson round trip of the same messages in the same run.
"""

import gc
import time
from collections.abc import Callable, Sequence

import orjson

from tardis_machine.bronze.decode import Decoder
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.keys import DEFAULT_KEY, compile_template
from tardis_machine.bronze.routing import Router
from tardis_machine.bronze.series import Origin
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines, encode_lines
from tardis_machine.model.records import BookChange, BookLevel, Trade
from tardis_machine.model.time import ms_text, us_text

START_US = 1_709_251_200_000_000
EVENTS = 20_000
CHUNK_RECORDS = 1000
ROUNDS = 7
SYMBOLS = ("BTCUSDT", "ETHUSDT", "SOLUSDT")
META = {
    "request_id": "9f2c7a1e",
    "session_id": "b1946ac9",
    "transport": "http",
    "route": "/replay-normalized",
    "app_version": "1.0.0",
}


def times(number: int) -> dict[str, str]:
    """Return the times of one record: the venue's in milliseconds, ours in microseconds."""
    microseconds = START_US + number * 700
    return {
        "timestamp": ms_text(microseconds // 1000),
        "local_timestamp": us_text(microseconds + 4321),
    }


def trade(number: int) -> Trade:
    return Trade(
        symbol=SYMBOLS[number % 3],
        exchange="binance-futures",
        id=str(4_000_000_000 + number),
        price=61_234.5 + number % 100 / 10,
        amount=(number % 50 + 1) / 1000,
        side="buy" if number % 3 else "sell",
        **times(number),
    )


def book_change(number: int, levels: int) -> BookChange:
    """Return a change of `levels` levels, half of them bids."""
    half = range(levels // 2)
    return BookChange(
        symbol=SYMBOLS[number % 3],
        exchange="binance-futures",
        is_snapshot=False,
        bids=[BookLevel(61_234 - n / 10, (n + number % 7) / 8) for n in half],
        asks=[BookLevel(61_235 + n / 10, (n + number % 9) / 8) for n in half],
        **times(number),
    )


def cost_us(work: Callable[[], object], events: int) -> float:
    """Return CPU microseconds per event, the best of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best / events * 1e6


def encode(records: Sequence[NormalizedRecord]) -> list[Envelope]:
    """Encode a stream chunk by chunk, as the publisher does."""
    encoder = Encoder("host-1", Origin.REPLAY, META)
    envelopes: list[Envelope] = []
    for start in range(0, len(records), CHUNK_RECORDS):
        envelopes += encoder.encode(records[start : start + CHUNK_RECORDS], START_US)
    return envelopes


def decode(envelopes: Sequence[bytes]) -> None:
    """Decode a stream chunk by chunk, as a consumer does."""
    decoder = Decoder()
    for start in range(0, len(envelopes), CHUNK_RECORDS):
        decoder.decode(envelopes[start : start + CHUNK_RECORDS])


def show(name: str, cost: float, calibration: float, target: str) -> None:
    rate = 1e6 / cost
    print(f"{name:34} {cost:7.2f} µs {rate:11,.0f} /s {cost / calibration:6.2f} × {target:>12}")


def measure(name: str, made: list[NormalizedRecord], targets: tuple[str, str, str]) -> None:
    """Print the calibration, encode and decode lines of one kind of record."""
    text = encode_lines(made)
    lines, records = text.splitlines(), decode_lines(text)
    count = len(records)
    calibration = cost_us(lambda: [orjson.dumps(orjson.loads(line)) for line in lines], count)
    size = len(text) / count
    print(f"calibration, {name}: {calibration:.2f} µs per orjson round trip of {size:.0f} B")
    show(f"encode {name}", cost_us(lambda: encode(records), count), calibration, targets[0])
    envelopes = encode(records)
    encoded = [envelope.data for envelope in envelopes]
    show(f"decode {name}", cost_us(lambda: decode(encoded), count), calibration, targets[1])
    show(
        f"JSON wire {name}", cost_us(lambda: encode_lines(records), count), calibration, targets[2]
    )
    if Decoder().decode(encoded) != records:
        raise SystemExit(f"{name} did not survive")


def measure_routing(records: list[NormalizedRecord]) -> None:
    """Print what a route and an identity cost per event."""
    envelopes = encode(records)
    router = Router("bronze", key=compile_template(DEFAULT_KEY, "kafka-key-template"))
    routed = cost_us(lambda: [router.route(one.series) for one in envelopes], len(envelopes))
    named = cost_us(lambda: [one.identity for one in envelopes], len(envelopes))
    print(f"route {routed:.2f} µs, identity text {named:.2f} µs per event")


def main() -> None:
    """Print the table."""
    print(f"{'':34} {'cost':>10} {'rate':>14} {'of orjson':>8} {'target /s':>12}")
    trades: list[NormalizedRecord] = [trade(number) for number in range(EVENTS)]
    measure("trades", trades, ("200,000", "300,000", "1,000,000"))
    for levels in (20, 40):
        changes: list[NormalizedRecord] = [book_change(n, levels) for n in range(EVENTS // 4)]
        targets = ("100,000", "100,000", "") if levels == 20 else ("", "", "")
        measure(f"book changes, {levels} levels", changes, targets)
    measure_routing(trades)


if __name__ == "__main__":
    main()
