"""What every plan of one process runs with."""

from dataclasses import dataclass, field

from tardis_machine.model.time import Clock
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.telemetry.metrics import Metrics
from tardis_machine.telemetry.replay_metrics import ReplayMetrics


@dataclass(frozen=True)
class SessionContext:
    """Where recorded data comes from, what time it is, and what is counted."""

    source: ArchiveSource
    clock: Clock
    metrics: ReplayMetrics = field(default_factory=lambda: Metrics().replay)
