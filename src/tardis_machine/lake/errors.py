"""Errors of the lake, and why a streaming query failed; `model.errors` draws the tree."""

import re
from collections.abc import Iterator
from typing import Any

from tardis_machine.model.errors import SettingsError, TardisMachineError


class JavaNotFoundError(SettingsError):
    """There is no Java 17 or newer; the text says how to get one."""


class JarsError(SettingsError):
    """The jars for Delta and Kafka are missing; the text says how to get them."""


class QueryError(SettingsError):
    """DuckDB rejects the SQL; the text has its reason."""


class LakeError(TardisMachineError):
    """A table or a job failed."""


class LakeInUseError(LakeError):
    """Another process writes the same tables."""

    retryable = True


class TableVersionError(LakeError):
    """A table was written by another version of this package."""


class BusError(LakeError):
    """A bus cannot be read with these settings."""


class BusUnavailableError(BusError):
    """The bus is down, slow or throttling; the same call may succeed later."""

    retryable = True


class PythonStartError(LakeError):
    """A Python worker of Spark did not start within ten seconds: the machine is too busy."""

    retryable = True


class DataLossError(LakeError):
    """The bus deleted events before they were read."""


_KINDS = {
    kind.__name__: kind
    for kind in (TableVersionError, BusError, BusUnavailableError, DataLossError)
}
# The last line of the traceback when one of our errors is raised in a Python worker of Spark.
_OURS = re.compile(r"^(?:[\w:]+ )*tardis_machine\.[\w.]+\.(\w+Error): (.+)$", re.MULTILINE)
# Spark waits ten seconds for a Python worker and has no setting for it.
_SLOW_PYTHON = re.compile(r"Python worker (?:failed )?to connect back")
# The Kafka connector of Spark names this option when offsets are gone.
_KAFKA_LOSS = re.compile(r"failOnDataLoss")
_REASON = re.compile(r"(?:Caused by: |^)[\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)


def query_error(query: str, error: Exception) -> LakeError:
    """Return the reason why a streaming query failed, as one error of the tree above.

    Args:
        query: Its name.
        error: What Spark raised; the reason is in it or in one of its causes.
    """
    text = "\n".join(_texts(error))
    if ours := _OURS.findall(text):
        kind, reason = ours[-1]
        return _KINDS.get(kind, LakeError)(f"{query} stopped: {reason}")
    if _SLOW_PYTHON.search(text):
        return PythonStartError(
            f"{query} failed: a Python worker of Spark did not start within ten seconds. "
            "The machine is too busy for the job."
        )
    if _KAFKA_LOSS.search(text):
        what = f"{query} stopped: a Kafka topic no longer holds events that were not read"
        return DataLossError(loss_text(what))
    return LakeError(f"{query} failed: {_first_line(text)}")


def spark_error(error: Exception) -> LakeError:
    """Return why Spark failed outside of a query.

    Its text must be read while the JVM runs: it is kept there.
    """
    return LakeError(f"Spark failed: {_first_line(chr(10).join(_texts(error)))}")


def loss_text(what: str) -> str:
    """Return the message that explains a loss and says how to continue."""
    return (
        f"{what}: the retention of the bus is too short, or the lake was stopped for too long. To "
        "continue with the events that are left and count the lost ones, start with "
        "--fail-on-data-loss false."
    )


def _texts(error: Exception) -> Iterator[str]:
    """Yield the texts of an error and of its causes in the JVM, outermost first."""
    cause: Any = error
    while cause is not None:
        yield str(cause)
        cause = getattr(cause, "_cause", None)


def _first_line(text: str) -> str:
    causes = _REASON.findall(text)
    return (causes[-1] if causes else text.partition("\n")[0]).strip()
