"""How many streams a process serves at once; beyond that, clients are asked to come again."""

from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import hdrs, web

from tardis_machine.model.errors import TardisMachineError
from tardis_machine.telemetry.replay_metrics import ServerMetrics

RETRY_SECONDS = 5
CROWD = 64


class ServerBusyError(TardisMachineError):
    """The process serves as many streams as it may; the same request may be served later."""

    retryable = True


class Admission:
    """The budget of one process for all requests that are being served."""

    def __init__(self, max_streams: int, metrics: ServerMetrics) -> None:
        self._max_streams = max_streams
        self._metrics = metrics
        self._taken = 0

    @property
    def is_crowded(self) -> bool:
        """Say whether there are so many streams that each must make do with little."""
        return self._taken > CROWD

    @contextmanager
    def admit(self, streams: int = 1) -> Iterator[None]:
        """Serve so many streams while the body runs.

        Raises:
            ServerBusyError: they would be too many.
        """
        if self._taken + streams > self._max_streams:
            self._metrics.busy_refusals.inc()
            raise ServerBusyError(
                f"The server is busy with {self._taken} streams, at most {self._max_streams} are "
                f"served at once. Please try again in {RETRY_SECONDS} seconds, or raise "
                "--max-streams of the server."
            )
        self._taken += streams
        try:
            yield
        finally:
            self._taken -= streams

    @contextmanager
    def admit_more(self, streams: int) -> Iterator[None]:
        """Serve a request that was admitted as one stream and turns out to be several."""
        with self.admit(max(0, streams - 1)):
            yield


def busy_response(error: ServerBusyError) -> web.Response:
    """Ask a client to come again."""
    return web.json_response(
        {"message": str(error)}, status=503, headers={hdrs.RETRY_AFTER: str(RETRY_SECONDS)}
    )
