"""Metrics of the server, of recorded data and of what becomes of it."""

from typing import TYPE_CHECKING, NamedTuple

from tardis_machine.telemetry.declarations import Declarations

if TYPE_CHECKING:
    from prometheus_client import Counter


class ServerMetrics:
    """The HTTP and WebSocket server."""

    def __init__(self, declare: Declarations) -> None:
        self.requests = declare.counter(
            "requests_total",
            "HTTP requests answered, WebSocket upgrades included.",
            "route",
            "status",
        )
        self.active_streams = declare.gauge(
            "active_streams", "Replays and live streams in progress.", "route"
        )
        self.messages = declare.counter(
            "messages_total", "Messages sent to clients.", "route", "exchange"
        )
        self.sent_bytes = declare.counter(
            "sent_bytes_total", "Bytes sent to clients, before compression.", "route"
        )
        self.first_message = declare.histogram(
            "first_message_seconds", "Time from a request to its first message.", "route"
        )
        self.busy_refusals = declare.counter(
            "busy_refusals_total",
            "Requests refused with 503 because max-streams streams were being served.",
        )
        self.malformed_requests = declare.counter(
            "malformed_requests_total", "Requests that were not valid HTTP."
        )
        self.slow_clients = declare.counter(
            "slow_clients_total",
            "Clients given up: nothing read for slow-client-seconds, too slow for a live stream.",
            "route",
        )
        # Made before the crowd comes: what begins among its memory keeps a megabyte of it each.
        for route in ("/replay", "/replay-normalized"):
            self.requests.labels(route, "503")


class ArchiveMetrics:
    """The data API and the cache."""

    def __init__(self, declare: Declarations) -> None:
        self.slices = declare.counter(
            "slices_total", "Slices read, by origin: cache or network.", "origin"
        )
        self.downloaded_bytes = declare.counter(
            "downloaded_bytes_total", "Compressed bytes downloaded from the data API."
        )
        self.download = declare.histogram(
            "download_seconds", "Time to download one slice, retries included."
        )
        self.retries = declare.counter(
            "retries_total", "Retries of downloads, by HTTP status or kind of failure.", "reason"
        )
        self.active_downloads = declare.gauge("active_downloads", "Downloads in progress.")
        self.corrupt_slices = declare.counter(
            "corrupt_slices_total", "Cached slices that were unreadable and downloaded again."
        )


class ReplayMetrics:
    """Normalization of raw messages."""

    def __init__(self, declare: Declarations) -> None:
        self.messages = declare.counter(
            "messages_total", "Raw messages read from slices.", "exchange"
        )
        self.records = declare.counter(
            "records_total", "Normalized records produced, including computed ones.", "exchange"
        )
        self.mapping_errors = declare.counter(
            "mapping_errors_total", "Raw messages that could not be normalized.", "exchange"
        )
        self.disconnects = declare.counter(
            "disconnects_total", "Disconnects in recordings.", "exchange"
        )

    def of(self, exchange: str) -> "ReplayCounters":
        """Return the counters of one exchange; each call of theirs counts a whole chunk."""
        return ReplayCounters(
            self.messages.labels(exchange),
            self.records.labels(exchange),
            self.mapping_errors.labels(exchange),
            self.disconnects.labels(exchange),
        )


class ReplayCounters(NamedTuple):
    """What is counted for one exchange."""

    messages: "Counter"
    records: "Counter"
    mapping_errors: "Counter"
    disconnects: "Counter"
