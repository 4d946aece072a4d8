"""Venue-native market data from a seed, written as slices of the replay cache.

Same settings, same bytes. A minute depends on the seed, its exchange and its symbols, not on how
many minutes or which other exchanges are written. Writing again over an earlier run replaces it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tardis_machine.model.time import MINUTE_US, SECOND_US
from tardis_machine.sources.simulator.feed import FeedOptions
from tardis_machine.sources.simulator.settings import SimulatorSettings
from tardis_machine.sources.simulator.slices import slice_path, write_slice
from tardis_machine.sources.simulator.traffic import Minute, Traffic
from tardis_machine.sources.simulator.venues import VENUES, choose_symbols, find_venue

__all__ = ["Progress", "SimulatorSettings", "simulate", "simulate_minutes", "simulated_exchanges"]


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


def simulate(
    settings: SimulatorSettings, progress: Callable[[Progress], None] | None = None
) -> Progress:
    """Write the slices of a simulation; `progress` is called after each one.

    Raises:
        UnknownNameError: An exchange cannot be simulated; nothing was written.
    """
    exchanges = tuple(dict.fromkeys(settings.exchanges)) or simulated_exchanges()
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
    """Return the minutes of one exchange without writing them."""
    venue = find_venue(exchange)
    symbols = choose_symbols(exchange, settings.symbols, settings.start_us)
    options = FeedOptions(
        seed=settings.seed,
        rate=settings.rate,
        start_second=settings.start_us // SECOND_US,
        is_lossy=settings.crossed,
    )
    feeds = [venue.open_feed(symbol, options) for symbol in symbols]
    gap_seed = f"{settings.seed}/{exchange}/gaps" if settings.with_gaps else None
    traffic = Traffic(feeds, options.start_second, gap_seed)
    return (traffic.next_minute() for _ in range(settings.minutes))
