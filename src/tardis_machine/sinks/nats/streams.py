"""Creating the stream that the settings ask for."""

import nats.errors
from nats.aio.client import Client
from nats.js.api import DiscardPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)


async def create_stream(client: Client, settings: NatsSettings) -> None:
    """Create the stream when it is missing; one that exists is never changed."""
    seconds = settings.ack_timeout_ms / 1000
    context = client.jetstream(timeout=seconds, **_api_place(settings.api_prefix, settings.domain))
    name = settings.stream or ""
    try:
        await context.stream_info(name)
    except NotFoundError:
        await _add(context, settings)
    except (nats.errors.Error, TimeoutError) as error:
        raise SinkUnavailableError(f"NATS stream info of {name!r} failed: {error}") from error


async def _add(context: nats.js.JetStreamContext, settings: NatsSettings) -> None:
    try:
        await context.add_stream(_config(settings))
    except APIError as error:
        raise SinkError(
            f"NATS rejected the creation of stream {settings.stream!r}: {error}"
        ) from error
    except (nats.errors.Error, TimeoutError) as error:
        raise SinkUnavailableError(f"NATS stream could not be created: {error}") from error
    log.info("stream created", stream=settings.stream, subjects=settings.wanted_subjects)


def _config(settings: NatsSettings) -> StreamConfig:
    return StreamConfig(
        name=settings.stream,
        subjects=list(settings.wanted_subjects),
        storage=StorageType(settings.stream_storage),
        num_replicas=settings.stream_replicas,
        max_bytes=settings.stream_max_bytes or None,
        max_age=settings.stream_max_age_ms / 1000 or None,
        discard=DiscardPolicy(settings.stream_discard),
        duplicate_window=settings.stream_duplicate_window_ms / 1000,
    )


def _api_place(prefix: str | None, domain: str | None) -> dict[str, str]:
    if domain is not None:
        return {"domain": domain}
    return {} if prefix is None else {"prefix": prefix}
