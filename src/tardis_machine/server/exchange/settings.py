"""Settings of the exchanges that `simulate --serve` plays."""

from collections.abc import Iterator
from dataclasses import dataclass

from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import option
from tardis_machine.server.exchange.faults import FaultRule, parse_rule

MAX_SPEED = 1000.0


@dataclass(frozen=True, kw_only=True)
class ExchangeSettings:
    """Play the exchanges live (with --serve)."""

    serve: int | None = option(
        None,
        "Port on which the exchanges are played live; nothing is written "
        "(default: write slices and end).",
        minimum=0,
        maximum=65_535,
        metavar="port",
    )
    serve_host: str = option("127.0.0.1", "Address to serve on.", metavar="host")
    speed: float = option(
        1.0,
        "How fast the time of the exchanges passes; above 1 it runs ahead of the clock.",
        maximum=MAX_SPEED,
    )
    faults: tuple[str, ...] = option(
        (),
        "Faults to make: close, stall, gap, garbage, rate-limit, refuse, each with a chance per "
        "message, request or handshake (close=0.001) or a mean time between two (stall=30s); "
        "close:1012=10s chooses the code.",
        metavar="kind=rate,…",
    )
    truth_updates: int = option(
        20_000, "Book updates and trades kept per symbol for /truth and /sent.", minimum=1
    )

    def __post_init__(self) -> None:
        problems = [*self._speed_problems(), *self._fault_problems()]
        if problems:
            raise SettingsError(*problems)

    @property
    def fault_rules(self) -> tuple[FaultRule, ...]:
        """Return the faults to make."""
        return tuple(map(parse_rule, self.faults))

    def _speed_problems(self) -> list[str]:
        if 0 < self.speed <= MAX_SPEED:
            return []
        return [f"speed must be above 0 and at most {MAX_SPEED:g}, not {self.speed:g}."]

    def _fault_problems(self) -> Iterator[str]:
        for text in self.faults:
            try:
                parse_rule(text)
            except ValueError as error:
                yield str(error)
