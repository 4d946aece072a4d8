"""What all parts of one archive share: settings, time and metrics."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tardis_machine.model.time import Clock
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.clock import system_clock
from tardis_machine.telemetry.replay_metrics import ArchiveMetrics

Sleep: TypeAlias = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Timing:
    """Time and chance as a component sees them, so that tests can own both."""

    clock: Clock = system_clock
    sleep: Sleep = asyncio.sleep
    random: Callable[[], float] = random.random


@dataclass(frozen=True)
class ArchiveContext:
    """The surroundings of one `ArchiveSource`."""

    settings: ArchiveSettings
    metrics: ArchiveMetrics
    timing: Timing = field(default_factory=Timing)
