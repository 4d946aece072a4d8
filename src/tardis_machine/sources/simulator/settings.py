"""What to simulate."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.time import MINUTE_US, parse_instant
from tardis_machine.sources.simulator.feed import MAX_MESSAGES_PER_SECOND

_SYMBOL = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class SimulatorSettings:
    """What to simulate, and where to write it."""

    out: Path = field(
        default=Path("simulated"),
        metadata={"help": "Folder to write to; afterwards it serves as a cache directory."},
    )
    start: str = field(
        default="2024-03-01",
        metadata={"help": "First minute, in UTC."},
    )
    minutes: int = field(
        default=10,
        metadata={"help": "How many minutes to write."},
    )
    seed: int = field(
        default=1,
        metadata={"help": "Same seed, same bytes."},
    )
    exchanges: tuple[str, ...] = field(
        default=(),
        metadata={"help": "Exchanges to simulate. Empty: all that can be simulated."},
    )
    symbols: tuple[str, ...] = field(
        default=(),
        metadata={
            "help": "Symbols, each for every exchange or as exchange:symbol. "
            "Empty: the defaults of each exchange."
        },
    )
    rate: float = field(
        default=50.0,
        metadata={"help": "Messages per second and symbol, on average."},
    )
    with_gaps: bool = field(
        default=False,
        metadata={"help": "Lose the connection every third minute, as recorders do."},
    )
    crossed: bool = field(
        default=False,
        metadata={"help": "Leave out some book changes, so that rebuilt books cross."},
    )

    @property
    def start_us(self) -> int:
        """Return the first minute in microseconds."""
        start_us = parse_instant(self.start)
        assert start_us is not None
        return start_us

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
        start_us = parse_instant(self.start)
        if start_us is None:
            return [f"start must be a UTC time such as 2024-03-01T00:05, not {self.start!r}."]
        if start_us % MINUTE_US:
            return [f"start must be a whole minute, not {self.start!r}."]
        return []

    def _symbol_problems(self) -> list[str]:
        return [
            f"symbol {text!r} may only hold letters, digits, '.', '_' and '-'."
            for text in self.symbols
            if not _SYMBOL.fullmatch(text.rpartition(":")[2])
        ]
