"""What live feeds share."""

from typing import Any

from tardis_machine.sources.context import Timing
from tardis_machine.sources.live.context import LiveContext
from tardis_machine.sources.live.settings import LiveSettings

MINUTE = "2026-03-01T00:00"
NOW_US = 1_772_323_230_500_000
"""30.5 seconds later."""


def test_no_loss_repeats_the_time_of_an_earlier_one() -> None:
    unused: Any = None
    timing = Timing(clock=lambda: NOW_US)
    context = LiveContext(LiveSettings(), unused, unused, None, unused, timing)
    told = [
        context.loss_time(exchange, f"{MINUTE}:{second}Z")
        for exchange, second in (
            ("deribit", "10.000"),
            ("deribit", "10.000"),
            ("okex", "10.000"),
            ("deribit", "20.000"),
            ("deribit", "40.000"),
        )
    ]
    assert [time.removeprefix(MINUTE + ":") for time in told] == [
        *("10.000Z", "30.500Z", "10.000Z", "30.500Z", "40.000Z")
    ]
