"""Measure the simulator: messages per CPU second, generated, written as text and compressed.

Run with `python benchmarks/simulator.py`. The calibration column is the CPU cost of one orjson
round trip of the same messages in the same run, to compare machines.
"""

import argparse
import tempfile
import time
from pathlib import Path

import orjson

from tardis_machine.sources.simulator import (
    SimulatorSettings,
    simulate,
    simulate_minutes,
    simulated_exchanges,
)

START = "2026-08-01"
"""All exchanges have their present format then."""
TARGET_PER_SECOND = 100_000
MESSAGE_START = 29


def main() -> None:
    """Print one row per exchange."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=2)
    parser.add_argument("--rate", type=float, default=500)
    arguments = parser.parse_args()
    print(f"target: {TARGET_PER_SECOND:,} messages per CPU second")
    print("| exchange | messages | bytes per message | messages/s | round trip, µs |")
    print("|---|---|---|---|---|")
    for exchange in simulated_exchanges():
        print(measure(exchange, arguments.minutes, arguments.rate))


def measure(exchange: str, minutes: int, rate: float) -> str:
    """Simulate one exchange and return its row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        settings = SimulatorSettings(
            out=Path(folder), start=START, minutes=minutes, rate=rate, exchanges=(exchange,)
        )
        started = time.process_time()
        done = simulate(settings)
        seconds = time.process_time() - started
    size = done.bytes_raw / done.messages
    return (
        f"| {exchange} | {done.messages:,} | {size:.0f} | {done.messages / seconds:,.0f} "
        f"| {round_trip_us(settings):.2f} |"
    )


def round_trip_us(settings: SimulatorSettings) -> float:
    """Return the CPU cost of decoding and encoding one message of the first minute."""
    minute = next(simulate_minutes(settings, settings.exchanges[0]))
    messages = [line[MESSAGE_START:] for line in minute.content.splitlines() if line]
    started = time.process_time()
    for message in messages:
        orjson.dumps(orjson.loads(message))
    return (time.process_time() - started) / len(messages) * 1e6


if __name__ == "__main__":
    main()
