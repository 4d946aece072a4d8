"""Venue-native market data from a seed, written as slices of the replay cache.

Same settings, same bytes. A minute depends on the seed, its exchange and its symbols, not on how
many minutes or which other exchanges are written. Writing again over an earlier run replaces it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.model.errors import RequestError
from tardis_machine.model.time import MINUTE_US, SECOND_US, us_text
from tardis_machine.sources.simulator.feed import FeedOptions, SimulatedFeed
from tardis_machine.sources.simulator.settings import DEFAULT_EXCHANGES, SimulatorSettings
from tardis_machine.sources.simulator.slices import slice_path, write_slice
from tardis_machine.sources.simulator.traffic import Minute, Traffic
from tardis_machine.sources.simulator.venues import VENUES, choose_symbols, find_venue

__all__ = [
    "Progress",
    "SimulatorSettings",
    "chosen_exchanges",
    "open_feeds",
    "simulate",
    "simulate_minutes",
    "simulated_exchanges",
]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a simulation has come; counts include everything so far."""

    exchange: str
    minute_us: int
    slices: int
    slices_total: int
    messages: int = 0
    disconnects: int = 0
    bytes_raw: int = 0
    bytes_written: int = 0

    def after(self, exchange: str, minute_us: int, minute: Minute, written: int) -> "Progress":
        """Return the progress after one more slice."""
        return Progress(
            exchange=exchange,
            minute_us=minute_us,
            slices=self.slices + 1,
            slices_total=self.slices_total,
            messages=self.messages + minute.messages,
            disconnects=self.disconnects + minute.disconnects,
            bytes_raw=self.bytes_raw + len(minute.content),
            bytes_written=self.bytes_written + written,
        )


def simulated_exchanges() -> tuple[str, ...]:
    """Return the exchanges that can be simulated."""
    return tuple(VENUES)


def chosen_exchanges(settings: SimulatorSettings, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the exchanges to simulate: those that were asked for, or the default."""
    return tuple(dict.fromkeys(settings.exchanges)) or default


def simulate(
    settings: SimulatorSettings, progress: Callable[[Progress], None] | None = None
) -> Progress:
    """Write the slices of a simulation; `progress` is called after each one.

    Raises:
        UnknownNameError: An exchange cannot be simulated; nothing was written.
    """
    exchanges = chosen_exchanges(settings, DEFAULT_EXCHANGES)
    plans = [(exchange, simulate_minutes(settings, exchange)) for exchange in exchanges]
    state = Progress(
        exchange="",
        minute_us=settings.start_us,
        slices=0,
        slices_total=len(plans) * settings.minutes,
    )
    for exchange, minutes in plans:
        for number, minute in enumerate(minutes):
            minute_us = settings.start_us + number * MINUTE_US
            path = slice_path(settings.out, exchange, minute_us)
            state = state.after(exchange, minute_us, minute, write_slice(path, minute.content))
            if progress is not None:
                progress(state)
    return state


def simulate_minutes(settings: SimulatorSettings, exchange: str) -> Iterator[Minute]:
    """Return the minutes of one exchange without writing them.

    Raises:
        UnknownNameError: the exchange cannot be simulated.
        RequestError: it had another format at that time.
    """
    _check_format(exchange, settings.start_us)
    start_second = settings.start_us // SECOND_US
    feeds = open_feeds(settings, exchange, start_second)
    gap_seed = f"{settings.seed}/{exchange}/gaps" if settings.with_gaps else None
    traffic = Traffic(feeds, start_second, gap_seed)
    return (traffic.next_minute() for _ in range(settings.minutes))


def _check_format(exchange: str, start_us: int) -> None:
    find_venue(exchange)
    known = REGISTRY[exchange]
    since_us = max(chain(known.format_switches_us, *known.switches_us.values()), default=0)
    if start_us < since_us:
        day = us_text(since_us)[:10]
        raise RequestError(
            f"{exchange} is simulated in the format that it has since {day}: "
            f"choose a start from that day on, such as --start {day}."
        )


def open_feeds(
    settings: SimulatorSettings, exchange: str, start_second: int
) -> list[SimulatedFeed]:
    """Open the markets of one exchange, one per symbol."""
    venue = find_venue(exchange)
    symbols = choose_symbols(exchange, settings.symbols, start_second * SECOND_US)
    options = FeedOptions(
        seed=settings.seed,
        rate=settings.rate,
        start_second=start_second,
        is_lossy=settings.crossed,
    )
    return [venue.open_feed(symbol, options) for symbol in symbols]
