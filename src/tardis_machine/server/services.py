"""What request handlers share."""

from dataclasses import dataclass

import structlog

from tardis_machine.model.time import Clock
from tardis_machine.server.settings import ServerSettings
from tardis_machine.session.plan import NormalizedPlan
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.telemetry.metrics import Metrics

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Services:
    """The running parts a request needs."""

    settings: ServerSettings
    archive: ArchiveSource
    metrics: Metrics
    clock: Clock

    def warn_of_ignored(self, plan: NormalizedPlan) -> None:
        """Log data types that nobody knows; the API ignores them."""
        if plan.ignored_types:
            log.warning("unknown data types ignored", data_types=plan.ignored_types)
