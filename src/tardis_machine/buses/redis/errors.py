"""What error replies and broken connections mean for events."""

from collections.abc import Iterable

from redis.exceptions import AuthenticationError, RedisError, ResponseError

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.redis.client import Reply, is_timeout
from tardis_machine.buses.results import Outcome, Result

PAUSE_SECONDS = 1.0
"""How long a server that is full or starting is left alone."""

_MEANINGS = {
    "OOM": (Outcome.TRANSIENT, Reason.OUT_OF_MEMORY, PAUSE_SECONDS),
    "LOADING": (Outcome.TRANSIENT, Reason.LOADING, PAUSE_SECONDS),
    "BUSY": (Outcome.TRANSIENT, Reason.BUSY, PAUSE_SECONDS),
    "MISCONF": (Outcome.TRANSIENT, Reason.CANNOT_PERSIST, PAUSE_SECONDS),
    "READONLY": (Outcome.TRANSIENT, Reason.READ_ONLY, 0.0),
    "NOREPLICAS": (Outcome.TRANSIENT, Reason.TOO_FEW_REPLICAS, 0.0),
    "MASTERDOWN": (Outcome.TRANSIENT, Reason.MASTER_DOWN, 0.0),
    "CLUSTERDOWN": (Outcome.TRANSIENT, Reason.CLUSTER_DOWN, 0.0),
    "TRYAGAIN": (Outcome.TRANSIENT, Reason.TRY_AGAIN, 0.0),
    "MOVED": (Outcome.TRANSIENT, Reason.MOVED, 0.0),
    "ASK": (Outcome.TRANSIENT, Reason.MOVED, 0.0),
    "EXECABORT": (Outcome.TRANSIENT, Reason.ABORTED, 0.0),
    "WRONGTYPE": (Outcome.BAD_DESTINATION, Reason.NOT_A_STREAM, 0.0),
    "NOPERM": (Outcome.BAD_DESTINATION, Reason.NOT_AUTHORIZED, 0.0),
    "NOAUTH": (Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED, 0.0),
    "WRONGPASS": (Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED, 0.0),
}
ELSEWHERE = frozenset(
    (
        Reason.MOVED,
        Reason.READ_ONLY,
        Reason.CLUSTER_DOWN,
        Reason.MASTER_DOWN,
        Reason.UNREACHABLE,
        Reason.CONNECTION_LOST,
        Reason.TIMEOUT,
    )
)
"""Reasons to look up the server of a stream again."""

_BUSY_CLIENTS = "max number of clients reached"
_NOT_NEWER_TEXT = "equal or smaller than the target stream top item"
_TOO_LONG = "invalid bulk length"


def code_of(error: RedisError) -> str:
    """Return the first word of an error reply, such as OOM."""
    # redis-py takes the code off the texts it knows, and leaves the others as they are.
    return error.status_code or str(error).partition(" ")[0]


def refusal(error: RedisError) -> Result:
    """Return what an error reply means; the command was surely not executed."""
    code, text = code_of(error), str(error)
    # It is a kind of connection error, and no reply code of its own tells it apart.
    if isinstance(error, AuthenticationError):
        return Result(Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED, text)
    if text == _BUSY_CLIENTS:
        return Result(Outcome.TRANSIENT, Reason.TOO_MANY_CLIENTS, text, PAUSE_SECONDS)
    if _NOT_NEWER_TEXT in text:
        return Result(Outcome.TRANSIENT, Reason.ENTRY_ID_NOT_NEWER, text)
    outcome, reason, seconds = _MEANINGS.get(code, (Outcome.BAD_DESTINATION, Reason.REFUSED, 0.0))
    return Result(outcome, reason, text, seconds)


def not_connected(error: RedisError) -> Result:
    """Return what a failed attempt to connect means; nothing was sent."""
    if error.status_code is not None or isinstance(error, AuthenticationError | ResponseError):
        return refusal(error)
    reason = Reason.TIMEOUT if is_timeout(error) else Reason.UNREACHABLE
    return Result(Outcome.TRANSIENT, reason, str(error))


def cut_off(error: RedisError) -> Result:
    """Return what a connection that ended without a reply means."""
    reason = Reason.TIMEOUT if is_timeout(error) else Reason.CONNECTION_LOST
    return Result(Outcome.AMBIGUOUS, reason, str(error))


def first_error(replies: Iterable[Reply]) -> RedisError | None:
    """Return the first error reply, if there is one."""
    return next((reply for reply in replies if isinstance(reply, RedisError)), None)


def is_too_long(error: RedisError) -> bool:
    """Say whether the server does not take an argument of that size."""
    return _TOO_LONG in str(error)
