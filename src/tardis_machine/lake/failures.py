"""Why a streaming query ended: the one sentence that matters out of all that Spark says."""

import re
from collections.abc import Iterator
from typing import Any

from tardis_machine.lake.buses.errors import BusError, BusUnavailableError
from tardis_machine.lake.buses.losses import loss_text
from tardis_machine.lake.errors import DataLossError, LakeError, TableVersionError

_KINDS = {kind.__name__: kind for kind in (BusError, BusUnavailableError, DataLossError)} | {
    TableVersionError.__name__: TableVersionError
}
# How an error of ours, raised in a Python process of Spark, ends its trace.
_OURS = re.compile(r"^(?:[\w:]+ )*tardis_machine\.[\w.]+\.(\w+Error): (.+)$", re.MULTILINE)
# Spark's Kafka connector refuses to skip offsets and names the option in its own words.
_KAFKA_LOSS = re.compile(r"failOnDataLoss")
_REASON = re.compile(r"(?:Caused by: |^)[\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)


def explained(query: str, error: Exception) -> LakeError:
    """Return what a failed query has to say, as an error of ours.

    Args:
        query: Its name.
        error: What Spark raised; the reason is in it or in one of its causes.
    """
    text = "\n".join(_texts(error))
    if ours := _OURS.findall(text):
        kind, reason = ours[-1]
        return _KINDS.get(kind, LakeError)(f"{query} stopped: {reason}")
    if _KAFKA_LOSS.search(text):
        what = f"{query} stopped: a topic of Kafka no longer holds events that were not read"
        return DataLossError(loss_text(what))
    return LakeError(f"{query} failed: {_first_line(text)}")


def _texts(error: Exception) -> Iterator[str]:
    """Yield what an error and its causes in the JVM say, outermost first."""
    cause: Any = error
    while cause is not None:
        yield str(cause)
        cause = getattr(cause, "_cause", None)


def _first_line(text: str) -> str:
    causes = _REASON.findall(text)
    return (causes[-1] if causes else text.partition("\n")[0]).strip()
