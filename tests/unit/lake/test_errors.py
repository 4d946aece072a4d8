"""What a failed query says to a person."""

import pytest

from tardis_machine.lake.errors import (
    BusUnavailableError,
    DataLossError,
    LakeError,
    PythonStartError,
    query_error,
)

TRACE = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_\
RUNTIME_ERROR] Failed when Python streaming data source perform latestOffset: Traceback (most recent
  File "source.py", line 3, in latestOffset
    raise DataLossError(text)
tardis_machine.lake.errors.DataLossError: bronze, partition 0 was deleted and made anew: so it is.

org.apache.spark.SparkException: Job aborted.
"""
KAFKA = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Partition t-0's offset was changed from 9
to 0. Some data may have been lost. If you don't want your streaming query to fail on such cases,
set the source option failOnDataLoss to false.
"""


def test_error_of_a_reader_is_told_without_its_trace() -> None:
    error = query_error("ingest-redis", RuntimeError(TRACE))
    assert isinstance(error, DataLossError)
    expected = "ingest-redis stopped: bronze, partition 0 was deleted and made anew: so it is."
    assert str(error) == expected


def test_server_that_is_away_is_told_from_other_failures() -> None:
    text = TRACE.replace("errors.DataLossError", "errors.BusUnavailableError")
    assert isinstance(query_error("ingest-redis", RuntimeError(text)), BusUnavailableError)


def test_loss_in_kafka_says_how_to_go_on() -> None:
    error = query_error("ingest-kafka", RuntimeError(KAFKA))
    assert isinstance(error, DataLossError)
    assert "--fail-on-data-loss false" in str(error)


def test_other_failure_is_told_by_its_cause() -> None:
    text = "Query failed\nat org.x.Y\nCaused by: java.io.IOException: No space left on device\nat z"
    error = query_error("refine", RuntimeError(text))
    assert type(error) is LakeError
    assert str(error) == "refine failed: No space left on device"


def test_failure_without_a_cause_is_told_by_its_first_line() -> None:
    assert str(query_error("serve", RuntimeError("it broke\nat x"))) == "serve failed: it broke"


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.spark.SparkException: Python worker failed to connect back. SQLSTATE: XXKST",
        "Caused by: Timed out while waiting for the Python worker to connect back",
    ],
)
def test_python_that_starts_too_slowly_may_be_tried_again(text: str) -> None:
    error = query_error("refine", RuntimeError(text))
    assert isinstance(error, PythonStartError)
    assert error.retryable
    assert str(error).startswith("refine failed: a Python worker of Spark did not start")
