"""Errors of Kinesis calls: what they mean for the events."""

import pytest
from botocore.exceptions import ClientError

from tardis_machine.buses.kinesis.errors import read_call_error
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome


def failed(code: str, status: int) -> ClientError:
    """Return the error of a call that was answered like this."""
    response = {
        "Error": {"Code": code, "Message": "what the service says"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "PutRecords")


@pytest.mark.parametrize(
    ("code", "status", "outcome", "reason"),
    [
        ("ResourceNotFoundException", 400, Outcome.BAD_DESTINATION, Reason.NO_DESTINATION),
        # Whatever answers at the endpoint, it knows no stream; the login was not refused.
        ("404", 404, Outcome.BAD_DESTINATION, Reason.NO_DESTINATION),
        ("AccessDeniedException", 400, Outcome.BAD_DESTINATION, Reason.NOT_AUTHORIZED),
        ("UnrecognizedClientException", 400, Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED),
        ("ExpiredTokenException", 400, Outcome.CLIENT_LOST, Reason.EXPIRED_TOKEN),
        ("KMSDisabledException", 400, Outcome.BAD_DESTINATION, Reason.ENCRYPTION),
        ("InternalFailure", 500, Outcome.TRANSIENT, Reason.INTERNAL_ERROR),
        ("503", 503, Outcome.TRANSIENT, Reason.INTERNAL_ERROR),
    ],
)
def test_answer_of_the_service_decides(
    code: str, status: int, outcome: Outcome, reason: Reason
) -> None:
    result = read_call_error(failed(code, status), events=2)
    assert (result.outcome, result.reason) == (outcome, reason)
