"""Events that a bus deleted before they were read: an error, or counted and logged."""

from tardis_machine.lake.buses.client import Loss, ReadPolicy
from tardis_machine.lake.buses.positions import Lane, Position
from tardis_machine.lake.errors import DataLossError, loss_text
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)


class Losses:
    """Counts lost events, or raises an error."""

    def __init__(self, policy: ReadPolicy) -> None:
        self._policy = policy
        self._events: dict[tuple[Lane, str], int] = {}

    @property
    def events(self) -> int:
        """Return the number of lost events, at least."""
        return sum(self._events.values())

    def report(self, lane: Lane, start: Position, loss: Loss) -> None:
        """Raise DataLossError, or count the loss; the same one counts once."""
        report_loss(self._policy, lane, loss)
        self._events[lane, str(start)] = loss.events


def report_loss(policy: ReadPolicy, lane: Lane, loss: Loss) -> None:
    """Raise DataLossError, or log the loss if the policy is to continue."""
    place = f"{lane.stream}, partition {lane.partition}"
    if policy.fails_on_loss:
        reason = (
            f"{place} was deleted and recreated"
            if loss.is_new_lane
            else f"{place} deleted at least {loss.events} events before they were read"
        )
        raise DataLossError(loss_text(reason))
    log.warning("events lost", stream=lane.stream, partition=lane.partition, events=loss.events)
