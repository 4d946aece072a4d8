"""Read NATS JetStream: ranges of the one sequence that a stream has.

A task reads with its own ephemeral in-memory consumer, which acknowledges nothing and is deleted
with the connection. So reading changes nothing, and a range can be read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import pyarrow as pa

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.nats.subjects import covers, matcher
from tardis_machine.lake.arrow import Values, arrow
from tardis_machine.lake.arrow import kernels as pc
from tardis_machine.lake.buses.client import NumberedClient, Page, Planner, ReadPolicy, Span
from tardis_machine.lake.buses.nats.jetstream import JetStream, StreamInfo
from tardis_machine.lake.buses.nats.protocol import Message
from tardis_machine.lake.buses.planning import LanePlanner
from tardis_machine.lake.buses.positions import Lane, Range
from tardis_machine.lake.buses.rows import make_rows
from tardis_machine.lake.errors import BusError

PAGE_MESSAGES = 8192

# Reply subjects are $JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<n>.<time>.<pending>, or
# have domain and account before the stream.
_TOKENS = 9
_SEQUENCE, _TIME, _PENDING = 5, 7, 8
_MORE_TOKENS = 2
_NS = pa.timestamp("ns", "UTC")


class NatsBus:
    """JetStream streams with the subjects of the publishing settings."""

    name = NatsSettings.bus

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings

    @property
    def endpoint(self) -> str:
        """Return the servers, without logins, and where on them JetStream is."""
        hosts = sorted(urlsplit(server).netloc.rpartition("@")[2] for server in self._servers)
        settings = self._settings
        return " ".join((*hosts, settings.domain or "", settings.api_prefix or "")).strip()

    @property
    def _servers(self) -> Iterator[str]:
        return (each if "://" in each else f"nats://{each}" for each in self._settings.servers)

    def connect(self) -> "NatsClient":
        """Return a client; it connects when it is used."""
        return NatsClient(self._settings)

    def planner(self, policy: ReadPolicy) -> Planner:
        """Return what plans batches."""
        return LanePlanner(self.connect(), policy)


class NatsClient(NumberedClient):
    """Reads streams by their sequence."""

    def __init__(self, settings: NatsSettings) -> None:
        self._settings = settings
        self._jetstream = JetStream(settings)
        self._ids: dict[str, str] = {}

    def close(self) -> None:
        """Close the connection."""
        self._jetstream.close()

    def spans(self) -> Mapping[Lane, Span]:
        """Ask for the state of every stream."""
        infos = {name: self._info(name) for name in self._streams()}
        self._ids = {name: info.created for name, info in infos.items() if info.created}
        return {Lane(name): _span(info) for name, info in infos.items()}

    def stream_ids(self) -> Mapping[str, str]:
        """Return when the streams were created."""
        return self._ids

    def span(self, lane: Lane) -> Span:
        """Ask for the state of one stream."""
        return _span(self._info(lane.stream))

    def read(self, wanted: Range) -> Iterator[Page]:
        """Read by a consumer that starts right after the last event read."""
        stream, end = wanted.lane.stream, int(wanted.end)
        filters = self._filters(stream)
        is_sieved = len(filters) > 1 and not self._jetstream.knows_several_filters
        consumer = self._jetstream.create_consumer(
            stream, int(wanted.start) + 1, () if is_sieved else filters
        )
        last, held = int(wanted.start), []
        for messages in self._jetstream.pull(stream, consumer, end - last):
            held += messages
            last, pending = _place(messages[-1])
            is_over = last >= end or not pending
            if is_over or len(held) >= PAGE_MESSAGES:
                yield _page(wanted.lane, held, end, filters if is_sieved else ())
                held = []
            if is_over:
                break
        if held:
            yield _page(wanted.lane, held, end, filters if is_sieved else ())
        # Messages of pending requests would mix with the responses of the next call.
        self._jetstream.drop_consumer(stream, consumer)
        self.close()

    def _streams(self) -> list[str]:
        if self._settings.stream is not None:
            return [self._settings.stream]
        subjects = self._settings.wanted_subjects
        found = {name for subject in subjects for name in self._jetstream.streams_of(subject)}
        if not found:
            raise BusError(f"NATS: no stream has the subjects {', '.join(subjects)}.")
        return sorted(found)

    def _info(self, stream: str) -> StreamInfo:
        info = self._jetstream.stream_info(stream)
        if info.retention != "limits":
            raise BusError(
                f"NATS: stream {stream} has retention {info.retention}, which deletes messages "
                "that a consumer has read. The lake reads streams with retention limits."
            )
        return info

    def _filters(self, stream: str) -> tuple[str, ...]:
        """Return the subjects to ask for; none when the stream has no others."""
        wanted, subjects = self._settings.wanted_subjects, self._info(stream).subjects
        is_all = subjects and all(any(covers(one, each) for one in wanted) for each in subjects)
        return () if is_all else wanted


def _span(info: StreamInfo) -> Span:
    return Span(info.first - 1 if info.messages else info.last, info.last)


def _place(message: Message) -> tuple[int, int]:
    """Return the sequence of an event and how many follow it."""
    words = message.reply.split(b".")
    more = _MORE_TOKENS if len(words) > _TOKENS else 0
    return int(words[_SEQUENCE + more]), int(words[_PENDING + more])


def _page(lane: Lane, messages: list[Message], end: int, filters: Sequence[str]) -> Page:
    sequences, times = _places(messages)
    envelopes = arrow.array([message.data for message in messages], pa.binary())
    rows = make_rows(NatsSettings.bus, lane, sequences, times, envelopes)
    last: int = sequences[-1].as_py()
    if last > end:
        rows = rows.filter(pc.less_equal(sequences, end))
    if filters:
        pattern = matcher(filters)
        kept = messages[: rows.num_rows]
        rows = rows.filter(pa.array([bool(pattern.fullmatch(one.subject)) for one in kept]))
    return Page(rows, min(last, end))


def _places(messages: list[Message]) -> tuple[Values, Values]:
    """Return sequences and times of events, which stand in the subjects of their replies."""
    words = pc.split_pattern(arrow.array([one.reply for one in messages], pa.string()), ".")
    more = _MORE_TOKENS if len(words[0]) > _TOKENS else 0
    sequences, times = (
        pc.list_element(words, place + more).cast(pa.int64()) for place in (_SEQUENCE, _TIME)
    )
    return sequences, times.cast(_NS)
