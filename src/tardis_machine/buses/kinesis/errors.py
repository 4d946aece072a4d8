"""What errors of Kinesis and of its client mean for the events of a call."""

from typing import Any

import aiohttp
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError

from tardis_machine.buses.kinesis.settings import NO_REGION
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.model.errors import SinkError, SinkUnavailableError

FAILURES = (BotoCoreError, ClientError, OSError)
"""What the client raises on purpose."""

THROTTLE_SECONDS = 1.0
"""A shard that was over its limit gets at least this long."""

EXPIRED = frozenset(("ExpiredTokenException", "ExpiredToken", "RequestExpired"))
NOT_FOUND = "ResourceNotFoundException"
DENIED = frozenset(("AccessDeniedException", "AccessDenied"))

_THROTTLES = frozenset(
    (
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "KMSThrottlingException",
        "ThrottlingException",
        "Throttling",
        "TooManyRequestsException",
    )
)
_INVALID = frozenset(("InvalidArgumentException", "ValidationException", "SerializationException"))
_TRANSIENT = frozenset(
    ("InternalFailure", "InternalFailureException", "ServiceUnavailable", "RequestTimeout")
)
_LOGINS = frozenset(
    (
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
    )
)
_TOO_LARGE_STATUS = 413
_NOT_FOUND_STATUS = 404
"""Without the error code of the service: something else answers at the endpoint."""


def read_record_error(code: str, message: str) -> Result:
    """Return the result of a failed record."""
    detail = f"{code}: {message}"
    if code in _THROTTLES:
        return Result(Outcome.TRANSIENT, Reason.THROTTLED, detail, THROTTLE_SECONDS)
    if code in _INVALID:
        return Result(Outcome.BAD_RECORD, Reason.INVALID_RECORD, detail)
    if code.startswith("KMS"):
        return Result(Outcome.BAD_DESTINATION, Reason.ENCRYPTION, detail)
    return Result(Outcome.TRANSIENT, Reason.INTERNAL_ERROR, detail)


def read_call_error(error: Exception, *, events: int) -> Result:
    """Return the result of each event of a failed call."""
    if isinstance(error, ClientError):
        return _read_client_error(error, events)
    if is_unreachable(error):
        return Result(Outcome.CLIENT_LOST, Reason.UNREACHABLE, describe(error))
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return Result(Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED, describe(error))
    # The request may have arrived: a lost response looks the same as a lost request.
    is_late = isinstance(error, ReadTimeoutError | TimeoutError)
    reason = Reason.TIMEOUT if is_late else Reason.CONNECTION_LOST
    return Result(Outcome.AMBIGUOUS, reason, describe(error))


def _read_client_error(error: ClientError, events: int) -> Result:
    code, status = code_of(error), status_of(error)
    detail = describe(error)
    if status == _TOO_LARGE_STATUS:
        return _too_large(events, detail)
    if code in _INVALID:
        return _invalid(detail, events)
    if code in EXPIRED:
        return Result(Outcome.CLIENT_LOST, Reason.EXPIRED_TOKEN, detail)
    if code == NOT_FOUND or status == _NOT_FOUND_STATUS:
        return Result(Outcome.BAD_DESTINATION, Reason.NO_DESTINATION, detail)
    if code in _LOGINS:
        return Result(Outcome.BAD_DESTINATION, Reason.NOT_AUTHENTICATED, detail)
    if code in _THROTTLES:
        return Result(Outcome.TRANSIENT, Reason.THROTTLED, detail, THROTTLE_SECONDS)
    if code in _TRANSIENT or status >= 500:
        return Result(Outcome.TRANSIENT, Reason.INTERNAL_ERROR, detail)
    reason = Reason.ENCRYPTION if code.startswith("KMS") else Reason.NOT_AUTHORIZED
    return Result(Outcome.BAD_DESTINATION, reason, detail)


def _too_large(events: int, detail: str) -> Result:
    if events == 1:
        return Result(Outcome.BAD_RECORD, Reason.TOO_LARGE, detail)
    return Result(Outcome.TRANSIENT, Reason.CALL_TOO_LARGE, detail)


def _invalid(detail: str, events: int) -> Result:
    """Return an error of the destination if the service names the stream, else of an event."""
    lowered = detail.lower()
    if "streamname" in lowered or "streamarn" in lowered:
        return Result(Outcome.BAD_DESTINATION, Reason.INVALID_DESTINATION, detail)
    return Result(Outcome.BAD_RECORD, Reason.INVALID_RECORD, detail, is_shared=events > 1)


def explained(error: Exception) -> SinkError:
    """Return the error of a failed open: transient or permanent."""
    if isinstance(error, NoRegionError):
        return SinkError(NO_REGION)
    if isinstance(error, ClientError):
        kind = SinkUnavailableError if is_passing(error) else SinkError
        return kind(f"Kinesis rejected the request: {describe(error)}")
    if isinstance(error, HTTPClientError | BotoConnectionError | TimeoutError | OSError):
        return SinkUnavailableError(f"Kinesis is not reachable: {describe(error)}")
    return SinkError(f"Kinesis client error: {describe(error)}")


def is_passing(error: ClientError) -> bool:
    """Say whether the error is transient."""
    return code_of(error) in _THROTTLES | _TRANSIENT or status_of(error) >= 500


def is_unreachable(error: Exception) -> bool:
    """Say whether no request can have been sent."""
    if isinstance(error, ConnectTimeoutError | SSLError | ProxyConnectionError):
        return True
    # The client gives the same error for a connection that broke in the middle of a request.
    cause = getattr(error, "kwargs", {}).get("error")
    is_broken = isinstance(cause, aiohttp.ClientError)
    is_refused = isinstance(cause, aiohttp.ClientConnectorError)
    return isinstance(error, EndpointConnectionError) and (is_refused or not is_broken)


def code_of(error: ClientError) -> str:
    """Return the error code of the service."""
    return str(_error(error).get("Code", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status of the response."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def describe(error: Exception) -> str:
    """Return the text of an error, without the request that caused it."""
    if isinstance(error, ClientError):
        return f"{code_of(error)}: {_error(error).get('Message', '')}"
    if isinstance(error, BotoCoreError) and "endpoint_url" in error.kwargs:
        return f"{type(error).__name__} at {error.kwargs['endpoint_url']}"
    return str(error) or type(error).__name__


def _error(error: ClientError) -> dict[str, Any]:
    found: dict[str, Any] = dict(error.response.get("Error", {}))
    return found
