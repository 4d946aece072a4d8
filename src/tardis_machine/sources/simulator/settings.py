"""Settings of the simulator."""

import re
from dataclasses import dataclass
from pathlib import Path

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import option
from tardis_machine.model.time import MINUTE_US, parse_instant
from tardis_machine.sources.simulator.feed import MAX_MESSAGES_PER_SECOND

DEFAULT_START = "2024-03-01"
DEFAULT_EXCHANGES = ("bitmex", "binance-futures", "deribit", "coinbase")
"""Exchanges whose slices are written unless others are asked for."""

_SYMBOL = re.compile(r"[A-Za-z0-9._/-]{1,64}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SimulatorSettings:
    """What to simulate, and where to write it."""

    out: Path = option(
        Path("simulated"), "Directory to write to; use it as --cache-dir afterwards."
    )
    start: str | None = option(
        None,
        f"First minute to simulate, UTC (default: {DEFAULT_START}; with --serve: now).",
        metavar="time",
    )
    minutes: int = option(10, "Minutes to simulate.", minimum=1)
    seed: int = option(1, "Random seed; the same seed gives the same bytes.")
    exchanges: tuple[str, ...] = option(
        (),
        f"Exchanges to simulate (default: {', '.join(DEFAULT_EXCHANGES)}; with --serve all).",
        aliases=("exchange",),
    )
    symbols: tuple[str, ...] = option(
        (),
        "Symbols for every exchange, or for one as exchange:symbol (default: a list per exchange).",
    )
    rate: float = option(
        50.0,
        "Average messages per second and symbol; fewer for options.",
        maximum=MAX_MESSAGES_PER_SECOND,
    )
    with_gaps: bool = option(False, "Add a disconnect to every third minute.")
    crossed: bool = option(
        False, "Omit some book changes, so that rebuilt order books become crossed."
    )

    @property
    def start_us(self) -> int:
        """Return the first minute in microseconds."""
        start_us = parse_instant(self.start or DEFAULT_START)
        assert start_us is not None
        return start_us

    def live_start_us(self, now_us: int) -> int:
        """Return when markets open that are played live: now, unless a start was given."""
        return now_us if self.start is None else self.start_us

    def __post_init__(self) -> None:
        problems = [*self._range_problems(), *self._start_problems(), *self._symbol_problems()]
        if problems:
            raise SettingsError(*problems)

    def _range_problems(self) -> list[str]:
        problems = []
        if self.minutes < 1:
            problems.append(f"minutes must be at least 1, not {self.minutes}.")
        if not 0 < self.rate <= MAX_MESSAGES_PER_SECOND:
            problems.append(
                f"rate must be above 0 and at most {MAX_MESSAGES_PER_SECOND}, not {self.rate}."
            )
        return problems

    def _start_problems(self) -> list[str]:
        start_us = parse_instant(self.start or DEFAULT_START)
        if start_us is None:
            return [f"start must be a UTC time such as 2024-03-01T00:05, not {self.start!r}."]
        if start_us % MINUTE_US:
            return [f"start must be a whole minute, not {self.start!r}."]
        return []

    def _symbol_problems(self) -> list[str]:
        return [
            f"symbol {text!r} may only contain letters, digits, '.', '_', '/' and '-'."
            for text in self.symbols
            if not _SYMBOL.fullmatch(text.rpartition(":")[2])
        ]
