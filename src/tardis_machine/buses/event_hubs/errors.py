"""What errors of Event Hubs and of its client mean for the events of a batch."""

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.eventhub.exceptions import AuthenticationError, EventHubError, OperationTimeoutError

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.model.errors import SinkError, SinkUnavailableError

FAILURES = (EventHubError, AzureError, OSError, ValueError)
"""What the client raises on purpose."""

BUSY_SECONDS = 4.0
"""Retry delay that the service documents for server-busy."""

NOT_FOUND = "not-found"
DEADLINE = Result(
    Outcome.AMBIGUOUS, Reason.TIMEOUT, "no acknowledgement within event-hubs-request-timeout-ms"
)

_CONDITIONS: dict[str, tuple[Outcome, Reason]] = {
    "server-busy": (Outcome.TRANSIENT, Reason.THROTTLED),
    "resource-limit-exceeded": (Outcome.TRANSIENT, Reason.THROTTLED),
    "timeout": (Outcome.TRANSIENT, Reason.SERVICE_TIMEOUT),
    "internal-error": (Outcome.TRANSIENT, Reason.INTERNAL_ERROR),
    "operation-cancelled": (Outcome.TRANSIENT, Reason.CANCELLED),
    "link:detach-forced": (Outcome.TRANSIENT, Reason.DETACHED),
    "link:message-size-exceeded": (Outcome.BAD_RECORD, Reason.TOO_LARGE),
    "argument-error": (Outcome.BAD_RECORD, Reason.INVALID_RECORD),
    NOT_FOUND: (Outcome.BAD_DESTINATION, Reason.NO_DESTINATION),
    "entity-disabled": (Outcome.BAD_DESTINATION, Reason.HUB_DISABLED),
    "unauthorized-access": (Outcome.BAD_DESTINATION, Reason.NOT_AUTHORIZED),
    "not-allowed": (Outcome.BAD_DESTINATION, Reason.NOT_ALLOWED),
}


def read_error(error: Exception, *, is_sent: bool, events: int) -> Result:
    """Return the result of each event of a failed batch.

    Args:
        error: What the client raised.
        is_sent: The batch was handed to the client, which may have sent it.
        events: How many events share the error.
    """
    known = _CONDITIONS.get(_condition(error))
    if known is not None:
        return _of_condition(*known, describe(error), events)
    if isinstance(error, AuthenticationError | ClientAuthenticationError):
        return Result(Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED, describe(error))
    if isinstance(error, OperationTimeoutError | TimeoutError):
        return DEADLINE if is_sent else _unreachable(error)
    if is_sent:
        # The client sends a second time by itself: the first one may have been stored.
        return Result(Outcome.AMBIGUOUS, Reason.CONNECTION_LOST, describe(error))
    return _unreachable(error)


def _of_condition(outcome: Outcome, reason: Reason, detail: str, events: int) -> Result:
    is_shared = outcome is Outcome.BAD_RECORD and events > 1
    pause = BUSY_SECONDS if reason is Reason.THROTTLED else 0.0
    return Result(outcome, reason, detail, pause, is_shared=is_shared)


def _unreachable(error: Exception) -> Result:
    return Result(Outcome.CLIENT_LOST, Reason.UNREACHABLE, describe(error))


def explained(error: Exception) -> SinkError:
    """Return the error of a failed open: transient or permanent."""
    result = read_error(error, is_sent=False, events=1)
    if result.outcome is Outcome.BAD_DESTINATION:
        return SinkError(f"Event Hubs rejected the connection: {result.detail}")
    if isinstance(error, ValueError):
        return SinkError(f"Event Hubs configuration error: {result.detail}")
    return SinkUnavailableError(f"Event Hubs is not reachable: {result.detail}")


def is_missing(error: Exception) -> bool:
    """Say whether the service is there and the hub is not."""
    return _condition(error) == NOT_FOUND


def describe(error: Exception) -> str:
    """Return the first line of the text of an error."""
    text = str(error).strip() or type(error).__name__
    condition = _condition(error)
    line = text.splitlines()[0]
    return f"{condition}: {line}" if condition and condition not in line else line


def _condition(error: Exception) -> str:
    """Return the AMQP condition without its first part, as the client gives it."""
    return (error.error or "") if isinstance(error, EventHubError) else ""
