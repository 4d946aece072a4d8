"""What errors of Event Hubs and of its client mean for the events of a batch."""

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.eventhub.exceptions import AuthenticationError, EventHubError, OperationTimeoutError

from tardis_machine.buses.results import Outcome, Result
from tardis_machine.model.errors import SinkError, SinkUnavailableError

FAILURES = (EventHubError, AzureError, OSError, ValueError)
"""What the client raises on purpose."""

BUSY_SECONDS = 4.0
"""What the service asks for when it is busy."""

NOT_FOUND = "not-found"
DEADLINE = Result(Outcome.AMBIGUOUS, "timeout", "no outcome within the request timeout")

_CONDITIONS: dict[str, tuple[Outcome, str]] = {
    "server-busy": (Outcome.TRANSIENT, "throttled"),
    "resource-limit-exceeded": (Outcome.TRANSIENT, "throttled"),
    "timeout": (Outcome.TRANSIENT, "service_timeout"),
    "internal-error": (Outcome.TRANSIENT, "internal_error"),
    "operation-cancelled": (Outcome.TRANSIENT, "cancelled"),
    "link:detach-forced": (Outcome.TRANSIENT, "detached"),
    "link:message-size-exceeded": (Outcome.BAD_RECORD, "too_large"),
    "argument-error": (Outcome.BAD_RECORD, "invalid_record"),
    NOT_FOUND: (Outcome.BAD_TARGET, "no_hub"),
    "entity-disabled": (Outcome.BAD_TARGET, "hub_disabled"),
    "unauthorized-access": (Outcome.BAD_TARGET, "not_authorised"),
    "not-allowed": (Outcome.BAD_TARGET, "not_allowed"),
}


def read_error(error: Exception, *, is_sent: bool, events: int) -> Result:
    """Say what an error means for each event of a batch.

    Args:
        error: What the client raised.
        is_sent: The batch was handed to the client, which may have sent it.
        events: How many events share the error.
    """
    known = _CONDITIONS.get(_condition(error))
    if known is not None:
        return _of_condition(*known, describe(error), events)
    if isinstance(error, AuthenticationError | ClientAuthenticationError):
        return Result(Outcome.BAD_TARGET, "not_authenticated", describe(error))
    if isinstance(error, OperationTimeoutError | TimeoutError):
        return DEADLINE if is_sent else _unreachable(error)
    if is_sent:
        # The client sends a second time by itself: the first one may have been stored.
        return Result(Outcome.AMBIGUOUS, "connection_lost", describe(error))
    return _unreachable(error)


def _of_condition(outcome: Outcome, reason: str, detail: str, events: int) -> Result:
    is_shared = outcome is Outcome.BAD_RECORD and events > 1
    pause = BUSY_SECONDS if reason == "throttled" else 0.0
    return Result(outcome, reason, detail, pause, is_shared=is_shared)


def _unreachable(error: Exception) -> Result:
    return Result(Outcome.CLIENT_LOST, "unreachable", describe(error))


def explained(error: Exception) -> SinkError:
    """Return what a failure to open means: try again soon, or wait for the operator."""
    result = read_error(error, is_sent=False, events=1)
    if result.outcome is Outcome.BAD_TARGET:
        return SinkError(f"Event Hubs refuses the connection: {result.detail}")
    if isinstance(error, ValueError):
        return SinkError(f"Event Hubs cannot be used: {result.detail}")
    return SinkUnavailableError(f"Event Hubs is not reachable: {result.detail}")


def is_missing(error: Exception) -> bool:
    """Say whether the service is there and the hub is not."""
    return _condition(error) == NOT_FOUND


def describe(error: Exception) -> str:
    """Return the first line of what is said about an error."""
    text = str(error).strip() or type(error).__name__
    condition = _condition(error)
    line = text.splitlines()[0]
    return f"{condition}: {line}" if condition and condition not in line else line


def _condition(error: Exception) -> str:
    """Return the AMQP condition without its first part, as the client gives it."""
    return (error.error or "") if isinstance(error, EventHubError) else ""
