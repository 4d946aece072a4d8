"""The root of every error this package raises on purpose, and those that several packages know.

An error of one package is defined there. The whole tree (a class is retryable when the same call
may succeed later)::

    TardisMachineError
    ├── RequestError                  a client asked for something that cannot be served
    │   ├── UnknownNameError          a name outside a known set, with the nearest valid one
    │   ├── UnsupportedError          known, but not available for this exchange
    │   ├── OptionsError              the `options` of a request are not JSON
    │   ├── BodyError                 the body of a request is too long, too slow or damaged
    │   ├── RequestTooLargeError      a request asks for more than a setting allows
    │   └── WebSocketRefusedError     a WebSocket is ended with this code and reason
    ├── ServerBusyError               as many streams are served as may be   (retryable)
    ├── SlowClientError               a client took no data for too long
    ├── SlowConsumerError             whoever reads a live stream is slower than the market
    ├── SettingsError                 flags, environment or files do not form valid settings
    │   ├── MissingExtraError         an optional dependency is not installed
    │   ├── JavaNotFoundError         no Java 17 or newer
    │   ├── JarsError                 the jars for Delta and Kafka are not there
    │   └── QueryError                SQL that DuckDB refuses
    ├── MappingError                  a venue message does not have the documented shape
    │   └── BookGapError              updates of one live book are missing
    ├── EnvelopeError                 bytes are not a readable Bronze envelope
    │   └── UnknownPayloadError       its payload is of a newer schema
    ├── SourceError                   data could not be read
    │   ├── UpstreamStatusError       the data API answered with an error status
    │   ├── SliceError                a slice is truncated, corrupt or not in the documented form
    │   ├── OfflineError              the cache lacks a slice and the network may not be used
    │   ├── TransientError            one attempt failed in a way that may pass   (retryable)
    │   ├── ExchangeError             an exchange refused something or is not understood (retryable)
    │   │   └── RetriedCallError      one REST call failed in a way that may pass   (retryable)
    │   ├── StaleConnectionError      a live connection says nothing any more   (retryable)
    │   └── TooManyFailuresError      an exchange failed again and again
    ├── SinkError                     events could not be handed to a bus
    │   ├── SinkUnavailableError      the bus is down, slow or throttling   (retryable)
    │   ├── BusNotReachedError        a required bus was not reached in time
    │   └── LogError                  a segment does not have the documented form
    └── LakeError                     a table or a job is not in the state it must have
        ├── TableVersionError         a table was written by another version of this package
        ├── LakeInUseError            another process writes the same tables   (retryable)
        ├── PythonStartError          Spark's Python did not start in ten seconds   (retryable)
        ├── DataLossError             the bus no longer holds what the next batch must read
        └── BusError                  a bus refuses to be read: login, permission, no such stream
            ├── BusUnavailableError   it is down, slow or throttling   (retryable)
            ├── ExpiredIteratorError  a place in a Kinesis shard was held for too long
            └── ForeignPositionError  a Kinesis stream was deleted and made anew
"""

from collections.abc import Collection
from difflib import get_close_matches

from tardis_machine.model.texts import SHOWN_CHARACTERS, shortened


class TardisMachineError(Exception):
    """Base of every error this package raises on purpose."""

    retryable = False


class RequestError(TardisMachineError):
    """A client asked for something that cannot be served."""


def nearest_hint(value: str, valid: Collection[str]) -> str:
    """Return ` Did you mean 'x'?` for the closest valid name, or nothing."""
    if len(value) > SHOWN_CHARACTERS:
        return ""
    folded = {name.lower(): name for name in valid}
    close = get_close_matches(value.lower(), folded, n=1)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


class UnknownNameError(RequestError):
    """A name outside a known set; the text lists the valid ones and the nearest."""

    def __init__(self, kind: str, value: str, valid: Collection[str]) -> None:
        self.kind = kind
        self.value = value
        self.valid = tuple(valid)
        super().__init__(
            f"Unknown {kind} {shortened(value)!r}.{nearest_hint(value, valid)} "
            f"Valid: {', '.join(valid)}."
        )


class UnsupportedError(RequestError):
    """The request names something that exists, but not for this exchange."""


class SettingsError(TardisMachineError):
    """Flags, environment or files do not form valid settings; holds every problem found."""

    def __init__(self, *problems: str) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class MissingExtraError(SettingsError):
    """An optional dependency is not installed; the text holds the install line."""


class MappingError(TardisMachineError):
    """A venue message does not have the documented shape."""


class BookGapError(MappingError):
    """Updates of one live book are missing; what follows waits for a new snapshot."""

    def __init__(self, symbol: str, details: str) -> None:
        self.symbol = symbol
        super().__init__(f"{symbol}: {details}")


class EnvelopeError(TardisMachineError):
    """Bytes are not a readable Bronze envelope."""


class SourceError(TardisMachineError):
    """Data could not be read."""


class UpstreamStatusError(SourceError):
    """The data API answered with an error status."""

    def __init__(self, status: int, response_text: str, url: str, hint: str = "") -> None:
        self.status = status
        self.response_text = response_text
        self.url = url
        # Existing clients match on this text.
        text = f"HttpError: status code: {status}, response text: {response_text}"
        super().__init__(f"{text}. {hint}" if hint else text)


class SliceError(SourceError):
    """A slice is truncated, corrupt or not in the documented form."""


class OfflineError(SourceError):
    """The cache lacks a slice and the network may not be used."""


class SinkError(TardisMachineError):
    """Events could not be handed to a bus."""


class SinkUnavailableError(SinkError):
    """The bus is down, slow or throttling; the same batch may succeed later."""

    retryable = True
