"""The Python API of live streams: raw messages and normalized records, without a server."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from tardis_machine.app.api import RawMessage
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import feed_of
from tardis_machine.model.control import FeedError
from tardis_machine.model.data_types import check_data_types
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter, StreamRequest, check_exchange, check_filters
from tardis_machine.model.time import us_text
from tardis_machine.session.live.plan import StreamPlan, check_timeout, plan_stream
from tardis_machine.session.live.raw import RawStream
from tardis_machine.session.live.stream import LiveClient
from tardis_machine.session.live.views import LiveViews
from tardis_machine.session.streams import RecordStream
from tardis_machine.sources.live.settings import LiveSettings
from tardis_machine.sources.live.source import LiveSource


def stream(
    exchange: str,
    *,
    filters: Iterable[Filter],
    with_disconnects: bool = False,
    timeout_interval_ms: float | None = None,
    on_error: Callable[[FeedError], None] | None = None,
    http_proxy: str | None = None,
    **options: Any,
) -> AsyncGenerator[RawMessage | None, None]:
    """Return messages as an exchange sends them now; None stands for a lost connection.

    Lost connections are opened again. Wrap the result in `contextlib.aclosing` when you may stop
    early.

    Args:
        exchange: exchange id, such as `bitmex`.
        filters: channels and symbols.
        with_disconnects: yield None where a connection was lost.
        timeout_interval_ms: take a connection for dead that brought nothing but heartbeats for
            this long, 0: never; None leaves it to the answers to pings and to each channel's pace.
        on_error: called with each failure.
        http_proxy: proxy for WebSockets and REST calls.
        options: of live streams: `exchange_gateway`, `exchange_environment` with credentials, and
            `stream_queue_max_records`.
    """
    known = REGISTRY[check_exchange(exchange, tuple(REGISTRY))]
    feed_of(known)
    wanted = check_filters([msgspec.to_builtins(entry) for entry in filters], known.channels)
    seconds = check_timeout(timeout_interval_ms)
    source = LiveSource(_settings(options), proxy=http_proxy)
    messages = _messages(source, on_error, known, wanted, seconds)
    return messages if with_disconnects else _without_gaps(messages)


def stream_normalized(
    exchange: str,
    *,
    data_types: Sequence[str],
    symbols: Sequence[str] | None = None,
    with_disconnects: bool = False,
    with_errors: bool = False,
    timeout_interval_ms: float | None = None,
    http_proxy: str | None = None,
    **options: Any,
) -> RecordStream:
    """Return normalized records of what an exchange sends now, computed types included.

    Args:
        exchange: exchange id, such as `bitmex`.
        data_types: such as `trade`, `book_change`, `book_snapshot_5_100ms`, `trade_bar_1m`.
        symbols: most exchanges want them to be named.
        with_disconnects: include `Disconnect` records.
        with_errors: include `FeedError` records.
        timeout_interval_ms: take a connection for dead that brought nothing but heartbeats for
            this long, 0: never; None leaves it to the answers to pings and to each channel's pace.
        http_proxy: proxy for WebSockets and REST calls.
        options: of live streams: `exchange_gateway`, `exchange_environment` with credentials, and
            `stream_queue_max_records`.
    """
    check_data_types(data_types)
    request = StreamRequest(
        exchange=exchange,
        symbols=None if symbols is None else list(symbols),
        data_types=list(data_types),
        with_disconnect_messages=with_disconnects,
        with_error_messages=with_errors,
        timeout_interval_ms=timeout_interval_ms,
    )
    settings = _settings(options)
    plan = plan_stream([request], settings.exchange_environment)
    return RecordStream(_record_chunks(plan, LiveSource(settings, proxy=http_proxy)))


async def _messages(
    source: LiveSource,
    on_error: Callable[[FeedError], None] | None,
    exchange: Exchange,
    filters: Sequence[Filter],
    timeout_seconds: float | None,
) -> AsyncGenerator[RawMessage | None, None]:
    async with source:
        raw = RawStream(source, on_error)
        async with aclosing(raw.messages(exchange, filters, timeout_seconds)) as messages:
            async for message in messages:
                yield None if message is None else _raw_message(*message)


async def _without_gaps(
    messages: AsyncGenerator[RawMessage | None, None],
) -> AsyncGenerator[RawMessage | None, None]:
    async with aclosing(messages):
        async for message in messages:
            if message is not None:
                yield message


def _raw_message(local_us: int, message: bytes) -> RawMessage:
    # Seven digits, as recordings have them.
    return RawMessage(f"{us_text(local_us)[:-1]}0Z", message)


async def _record_chunks(
    plan: StreamPlan, source: LiveSource
) -> AsyncGenerator[list[Record], None]:
    async with source, aclosing(LiveClient(plan, LiveViews(source)).chunks()) as chunks:
        async for ready in chunks:
            for chunk in ready:
                yield [*chunk.records]


def _settings(options: dict[str, Any]) -> LiveSettings:
    return settings_of(LiveSettings, options)
