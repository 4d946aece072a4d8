"""Live feeds with publishing: for the server, and for `publish --stream`, which runs for ever."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tardis_machine.app.recording import following, open_recorder
from tardis_machine.bronze.series import Origin
from tardis_machine.model.requests import StreamRequest
from tardis_machine.model.time import SECOND_US
from tardis_machine.session.contents import live_contents
from tardis_machine.session.live.chunks import LiveChunk
from tardis_machine.session.live.plan import StreamEntry, plan_stream
from tardis_machine.session.live.publishing import LivePublisher
from tardis_machine.session.live.views import LiveViews
from tardis_machine.sinks.publisher.client import PublisherClient
from tardis_machine.sources.live.listeners import Failure, Loss, Tap
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource
from tardis_machine.sources.recording.settings import RecordSettings
from tardis_machine.telemetry.live_metrics import LiveMetrics
from tardis_machine.version import __version__

TRANSPORT = "live"


@asynccontextmanager
async def live_views(
    settings: LiveSettings,
    proxy: str | None,
    metrics: LiveMetrics | None,
    client: PublisherClient | None,
    recording: RecordSettings | None = None,
    *,
    is_worker: bool = False,
) -> AsyncIterator[LiveViews]:
    """Open live feeds while the body runs; what they bring is published and recorded, if asked."""
    publisher = None if client is None else _live_publisher(client)
    record = recording or RecordSettings()
    try:
        async with open_recorder(record, metrics, is_worker=is_worker) as recorder:
            taps: list[Tap] = [each.tap for each in (publisher, recorder) if each is not None]
            async with (
                LiveSource(settings, metrics=metrics, proxy=proxy, taps=taps) as source,
                following(recorder, source),
            ):
                yield LiveViews(source, publisher)
    finally:
        if publisher is not None:
            publisher.close()


def _live_publisher(client: PublisherClient) -> LivePublisher:
    return LivePublisher(client.stream(Origin.REALTIME, _meta(), contents=live_contents()))


def _meta() -> dict[str, str]:
    name = uuid.uuid4().hex
    return {
        "request_id": name,
        "session_id": name,
        "transport": TRANSPORT,
        "route": "stream",
        "app_version": __version__,
    }


class Headless:
    """Keeps an entry of a stream going, without a client."""

    def take(self, chunk: LiveChunk) -> None:
        """Do nothing: what is published does not come this way."""

    def failed(self, failure: Failure) -> None:
        """Do nothing: the feed says so itself."""

    def lost(self, loss: Loss) -> None:
        """Do nothing: the feed says so itself."""


class LiveStreams:
    """Streams that are published until somebody stops them."""

    def __init__(
        self,
        requests: Sequence[StreamRequest],
        settings: LiveSettings,
        proxy: str | None,
        recording: RecordSettings,
    ) -> None:
        """Check the streams.

        Raises:
            RequestError: a venue does not stream what was asked for.
        """
        self._plan = plan_stream(requests, settings.exchange_environment)
        self._settings = settings
        self._proxy = proxy
        self._recording = recording
        self._publisher: LivePublisher | None = None

    @property
    def records(self) -> int:
        """Return how many records were published."""
        return self._publisher.records if self._publisher else 0

    @property
    def lags(self) -> dict[str, float]:
        """Return how old the latest record of each exchange is, in seconds."""
        latest = self._publisher.latest_us if self._publisher else {}
        now = time.time()
        return {exchange: now - local_us / SECOND_US for exchange, local_us in latest.items()}

    async def run(self, client: PublisherClient) -> None:
        """Publish until cancelled; outages of exchanges and buses do not end it."""
        async with live_views(self._settings, self._proxy, None, client, self._recording) as views:
            self._publisher = views.publisher
            for entry in self._plan.entries:
                self._join(views, entry)
            await asyncio.Event().wait()

    def _join(self, views: LiveViews, entry: StreamEntry) -> None:
        views.join(Headless(), entry, self._plan.output.classes(entry.exchange.id))
