"""Recording of live feeds, while they are open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tardis_machine.sources.live.source import LiveSource
from tardis_machine.sources.recording.recorder import Recorder
from tardis_machine.sources.recording.settings import RecordSettings
from tardis_machine.telemetry.live_metrics import LiveMetrics
from tardis_machine.telemetry.metrics import Metrics


@asynccontextmanager
async def open_recorder(
    settings: RecordSettings, metrics: LiveMetrics | None, *, is_worker: bool
) -> AsyncIterator[Recorder | None]:
    """Record while the body runs, if anything is to be recorded.

    All live clients meet in one worker, so workers lock the directory when the first one comes.

    Raises:
        SettingsError: the directory cannot be written, or another process records to it.
    """
    if settings.record is None:
        yield None
        return
    recorder = Recorder(settings, metrics or Metrics().live)
    if not is_worker:
        recorder.open()
    try:
        yield recorder
    finally:
        await recorder.close()


@asynccontextmanager
async def following(recorder: Recorder | None, source: LiveSource) -> AsyncIterator[None]:
    """Let a recorder hand on what feeds bring while the body runs."""
    if recorder is None:
        yield
        return
    task = asyncio.create_task(recorder.run(source), name="recorder")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
