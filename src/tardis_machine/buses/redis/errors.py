"""What error replies and broken connections mean for events."""

from collections.abc import Iterable

from redis.exceptions import AuthenticationError, RedisError, ResponseError

from tardis_machine.buses.redis.client import Reply, is_timeout
from tardis_machine.buses.results import Outcome, Result

PAUSE_SECONDS = 1.0
"""How long a server that is full or starting is left alone."""

_MEANINGS = {
    "OOM": (Outcome.TRANSIENT, "out_of_memory", PAUSE_SECONDS),
    "LOADING": (Outcome.TRANSIENT, "loading", PAUSE_SECONDS),
    "BUSY": (Outcome.TRANSIENT, "busy", PAUSE_SECONDS),
    "MISCONF": (Outcome.TRANSIENT, "cannot_persist", PAUSE_SECONDS),
    "READONLY": (Outcome.TRANSIENT, "read_only", 0.0),
    "NOREPLICAS": (Outcome.TRANSIENT, "too_few_replicas", 0.0),
    "MASTERDOWN": (Outcome.TRANSIENT, "master_down", 0.0),
    "CLUSTERDOWN": (Outcome.TRANSIENT, "cluster_down", 0.0),
    "TRYAGAIN": (Outcome.TRANSIENT, "try_again", 0.0),
    "MOVED": (Outcome.TRANSIENT, "moved", 0.0),
    "ASK": (Outcome.TRANSIENT, "moved", 0.0),
    "EXECABORT": (Outcome.TRANSIENT, "aborted", 0.0),
    "WRONGTYPE": (Outcome.BAD_TARGET, "not_a_stream", 0.0),
    "NOPERM": (Outcome.BAD_TARGET, "not_authorized", 0.0),
    "NOAUTH": (Outcome.BAD_TARGET, "not_authenticated", 0.0),
    "WRONGPASS": (Outcome.BAD_TARGET, "not_authenticated", 0.0),
}
NOT_NEWER = "entry_id_not_newer"
"""Reason of an entry whose id is not above the newest one of its stream."""
ELSEWHERE = frozenset(
    ("moved", "read_only", "cluster_down", "master_down", "disconnected", "timeout")
)
"""Reasons to look anew for the server of a stream."""

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
        return Result(Outcome.BAD_TARGET, "not_authenticated", text)
    if text == _BUSY_CLIENTS:
        return Result(Outcome.TRANSIENT, "too_many_clients", text, PAUSE_SECONDS)
    if _NOT_NEWER_TEXT in text:
        return Result(Outcome.TRANSIENT, NOT_NEWER, text)
    outcome, reason, seconds = _MEANINGS.get(code, (Outcome.BAD_TARGET, "refused", 0.0))
    return Result(outcome, reason, text, seconds)


def not_connected(error: RedisError) -> Result:
    """Return what a failed attempt to connect means; nothing was sent."""
    if error.status_code is not None or isinstance(error, AuthenticationError | ResponseError):
        return refusal(error)
    return Result(Outcome.TRANSIENT, "timeout" if is_timeout(error) else "disconnected", str(error))


def cut_off(error: RedisError) -> Result:
    """Return what a connection that ended without a reply means."""
    return Result(Outcome.AMBIGUOUS, "timeout" if is_timeout(error) else "disconnected", str(error))


def first_error(replies: Iterable[Reply]) -> RedisError | None:
    """Return the first error reply, if there is one."""
    return next((reply for reply in replies if isinstance(reply, RedisError)), None)


def is_too_long(error: RedisError) -> bool:
    """Say whether the server does not take an argument of that size."""
    return _TOO_LONG in str(error)
