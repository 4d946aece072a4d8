"""Chunks of a log to envelopes, the same for whoever reads them and whenever.

Ordinals count the records of a stream since it began. They are saved where a segment begins, so an
encoder can start anywhere after reading at most one segment.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from tardis_machine.bronze.cases import AnyCase, PayloadCase
from tardis_machine.bronze.encode import Encoder, identities
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.ordinals import Counts, Ordinals
from tardis_machine.model.errors import EnvelopeError
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines
from tardis_machine.sinks.delivery.context import StreamContext, parse_context
from tardis_machine.sinks.storage.chunks import Flags
from tardis_machine.sinks.storage.directory import LogDirectory
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.reader import BadBytes, Chunk, ChunkReader
from tardis_machine.sinks.storage.segments import Segment, list_segments, segment_path
from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

ORDINALS_SUFFIX = ".ordinals"
RECENT_BYTES = 4 * 1_048_576
"""Chunks of this many bytes are kept encoded, for buses that come a little later."""

# Looking a number up takes a third of the time of writing it.
_NUMBERS = tuple(f"{number:06d}" for number in range(4096))
_ordinals_decoder = msgspec.msgpack.Decoder(dict[str, tuple[Counts, Counts]])

Saved: TypeAlias = dict[str, tuple[Counts, Counts]]
"""Ordinals of the open streams of a log: older and recent counts."""


class EncodedChunk(NamedTuple):
    """The envelopes of one chunk."""

    envelopes: list[Envelope]
    lines: Sequence[int]
    """Which event of the chunk each envelope is."""
    event_ids: list[str]
    delivery_ids: list[str]
    outcomes: bytes
    """`Settled` of every event; `WAITING` where there is an envelope."""
    left_out: Mapping[AnyCase, int]
    """Events of cases that nobody publishes."""


class LogEncoder:
    """Encodes the chunks of one log in their order.

    Args:
        log: the log.
        cases: payload cases that somebody publishes.
        streams: counts of the streams that are open before the first chunk.
    """

    def __init__(
        self,
        log: LogDirectory,
        cases: Collection[PayloadCase],
        streams: Saved | None = None,
    ) -> None:
        self._log = log
        self._cases = cases
        self._ordinals = {name: Ordinals(*counts) for name, counts in (streams or {}).items()}
        self._encoders: dict[str, Encoder] = {}
        self._unsaved: tuple[Path, bytes] | None = None
        """Counts at the beginning of a segment for which the disk had no room yet."""
        self.end = 0
        """Where the last chunk ended that was encoded."""
        self.number = 0

    def encode(self, chunk: Chunk) -> EncodedChunk:
        """Encode the next chunk; where it begins a segment, save the counts before it."""
        if segment_path(self._log.path, chunk.start).exists():
            self._note(chunk.start)
        if self._unsaved is not None:
            self._save(*self._unsaved)
        context = parse_context(chunk.context)
        encoder = self._encoder(context)
        records, lines = _read_lines(chunk.body)
        outcomes = _outcomes_before(chunk.head.events, lines)

        def reject(place: int, error: EnvelopeError) -> None:
            log.error("record dropped: it could not be encoded", error=str(error))
            outcomes[lines[place]] = Settled.UNENCODABLE

        made = encoder.encode_each(records, chunk.head.appended_us, reject)
        self.end, self.number = chunk.end, chunk.head.number
        if chunk.head.flags & Flags.LAST:
            del self._encoders[context.stream], self._ordinals[context.stream]
        left_out, encoder.left_out = encoder.left_out, Counter()
        prefix = f"{self._log.log_id}-{chunk.head.number:012d}-"
        return _finish(prefix, made, lines, outcomes, left_out)

    def count(self, chunk: Chunk) -> None:
        """Let a chunk count for the ordinals of those after it."""
        if chunk.head.flags & Flags.RECORDS:
            self.end, self.number = chunk.end, chunk.head.number
        else:
            self.encode(chunk)

    def _note(self, base: int) -> None:
        """Note the counts of open streams where a segment begins, unless somebody did."""
        path = _ordinals_path(self._log.path, base)
        if not path.exists():
            counts = {name: (each.older, each.recent) for name, each in self._ordinals.items()}
            self._unsaved = path, msgspec.msgpack.encode(counts)

    def _save(self, path: Path, counts: bytes) -> None:
        """Write counts that were noted; on a full disk the next chunk tries it again."""
        draft = path.with_suffix(".draft")
        with suppress(OSError):
            draft.write_bytes(counts)
            draft.replace(path)
            self._unsaved = None

    def _encoder(self, context: StreamContext) -> Encoder:
        encoder = self._encoders.get(context.stream)
        if encoder is None:
            ordinals = self._ordinals.setdefault(context.stream, Ordinals())
            encoder = self._encoders[context.stream] = Encoder(
                context.producer_id,
                context.origin,
                context.meta,
                cases=self._cases,
                ordinals=ordinals,
                contents=context.contents,
            )
        return encoder


class LogEncoding:
    """Encodes a log once for all buses that stand at the same place.

    The first bus at a place encodes it, others find it there. One that lags behind what is kept
    has an encoder of its own (`Feed`), and costs the others nothing.
    """

    def __init__(self, log: LogDirectory, cases: Collection[PayloadCase], buses: int) -> None:
        self.log = log
        self._cases = cases
        self._limit_bytes = RECENT_BYTES if buses > 1 else 0
        self._lock = threading.Lock()
        self._front: LogEncoder | None = None
        self._recent: OrderedDict[int, tuple[EncodedChunk, int]] = OrderedDict()
        self._recent_bytes = 0

    def find(self, chunk: Chunk) -> EncodedChunk | None:
        """Return a chunk encoded; None when the others are past it."""
        with self._lock:
            if kept := self._recent.get(chunk.head.number):
                return kept[0]
            front = self._front
            if front is not None and chunk.head.number <= front.number:
                return None
            if front is None or front.end != chunk.start:
                front = self._front = self.encoder_at(chunk)
            encoded = front.encode(chunk)
            self._keep(chunk, encoded)
            return encoded

    def encoder_at(self, chunk: Chunk) -> LogEncoder:
        """Return an encoder that has read everything before a chunk."""
        return encoder_before(self.log, self._cases, chunk)

    def _keep(self, chunk: Chunk, encoded: EncodedChunk) -> None:
        size = len(chunk.body)
        self._recent[chunk.head.number] = encoded, size
        self._recent_bytes += size
        while self._recent and self._recent_bytes > self._limit_bytes:
            _, (_, size) = self._recent.popitem(last=False)
            self._recent_bytes -= size


def encoder_before(
    log_directory: LogDirectory, cases: Collection[PayloadCase], chunk: Chunk
) -> LogEncoder:
    """Return an encoder that has read everything before a chunk, from the nearest saved counts."""
    base, streams = _nearest_ordinals(log_directory.path, chunk.start)
    encoder = LogEncoder(log_directory, cases, streams)
    reader = ChunkReader(log_directory.path)
    offset = base
    try:
        while offset < chunk.start and (found := reader.read(offset)) is not None:
            if not isinstance(found, BadBytes) and found.head.number > encoder.number:
                with suppress(msgspec.DecodeError):
                    # One with an unreadable context was set aside, and counts for no stream.
                    encoder.count(found)
            offset = found.end
    finally:
        reader.close()
    encoder.end, encoder.number = chunk.start, chunk.head.number - 1
    return encoder


def delete_ordinals(directory: Path, segments: Sequence[Segment]) -> None:
    """Delete the saved counts of segments that are gone."""
    bases = {segment.base for segment in segments}
    for path in directory.glob(f"*{ORDINALS_SUFFIX}"):
        if int(path.stem) not in bases:
            path.unlink(missing_ok=True)


def _nearest_ordinals(directory: Path, offset: int) -> tuple[int, Saved]:
    before = [segment.base for segment in list_segments(directory) if segment.base <= offset]
    for base in reversed(before):
        with suppress(FileNotFoundError):
            path = _ordinals_path(directory, base)
            try:
                return base, _ordinals_decoder.decode(path.read_bytes())
            except msgspec.DecodeError as error:
                log.warning("saved ordinals ignored: unreadable", path=str(path), error=str(error))
    return (before[0] if before else offset), {}


def _ordinals_path(directory: Path, base: int) -> Path:
    return directory / f"{base:020d}{ORDINALS_SUFFIX}"


def _outcomes_before(events: int, lines: Sequence[int]) -> bytearray:
    """Return what becomes of events that get no envelope, unless the encoder says otherwise."""
    if len(lines) == events:
        return bytearray([Settled.FILTERED]) * events
    outcomes = bytearray([Settled.UNREADABLE]) * events
    for line in lines:
        outcomes[line] = Settled.FILTERED
    return outcomes


def _finish(
    prefix: str,
    made: Sequence[Envelope | None],
    lines: Sequence[int],
    outcomes: bytearray,
    left_out: Mapping[AnyCase, int],
) -> EncodedChunk:
    envelopes = [envelope for envelope in made if envelope is not None]
    if len(envelopes) < len(outcomes):
        pairs = zip(made, lines, strict=True)
        lines = [line for envelope, line in pairs if envelope is not None]
        for line in lines:
            outcomes[line] = Settled.WAITING
    else:
        outcomes = bytearray(len(outcomes))
    delivery_ids = _delivery_ids(prefix, lines)
    event_ids = identities(envelopes)
    return EncodedChunk(envelopes, lines, event_ids, delivery_ids, bytes(outcomes), left_out)


def _delivery_ids(prefix: str, lines: Sequence[int]) -> list[str]:
    if lines and lines[-1] < len(_NUMBERS):
        return [prefix + _NUMBERS[line] for line in lines]
    return [f"{prefix}{line:06d}" for line in lines]


def _read_lines(body: bytes) -> tuple[Sequence[NormalizedRecord], Sequence[int]]:
    """Return the records of NDJSON and which line each is; a line that is none is left out."""
    try:
        records = decode_lines(body)
    except msgspec.DecodeError:
        found = list(_read_each(body))
        return [record for record, _ in found], [line for _, line in found]
    return records, range(len(records))


def _read_each(body: bytes) -> Sequence[tuple[NormalizedRecord, int]]:
    found = []
    for number, line in enumerate(body.splitlines()):
        try:
            found += [(record, number) for record in decode_lines(line)]
        except msgspec.DecodeError as error:
            log.error("line dropped: it could not be decoded", error=str(error))
    return found
