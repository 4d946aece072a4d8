"""Settings of `simulate`, apart from the others: only this command loads the simulator."""

from dataclasses import dataclass

from tardis_machine.app.settings.commands import CommandSettings
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import group
from tardis_machine.server.exchange.settings import ExchangeSettings
from tardis_machine.sources.simulator.settings import SimulatorSettings


@dataclass(frozen=True, kw_only=True)
class SimulateSettings(CommandSettings):
    """Settings of `simulate`."""

    simulator: SimulatorSettings = group(SimulatorSettings, "simulate", flag_prefix="")
    exchange: ExchangeSettings = group(ExchangeSettings, "simulate", flag_prefix="")

    def __post_init__(self) -> None:
        if self.exchange.serve is None:
            return
        problems = [
            f"{name} changes slices and cannot be combined with serve; use faults such as {fault}."
            for name, fault, is_on in (
                ("with-gaps", "close=30s", self.simulator.with_gaps),
                ("crossed", "gap=30s", self.simulator.crossed),
            )
            if is_on
        ]
        if problems:
            raise SettingsError(*problems)
