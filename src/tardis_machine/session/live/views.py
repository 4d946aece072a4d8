"""What clients see of a live feed, made once for all that asked for the same."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from tardis_machine.computed.pipeline import Computables
from tardis_machine.model.data_types import ComputedSpec
from tardis_machine.model.records import BookChange, Record
from tardis_machine.session.live.backlog import Backlog
from tardis_machine.session.live.chunks import LiveChunk, records_at_once
from tardis_machine.session.live.plan import StreamEntry
from tardis_machine.session.live.publishing import COMPUTED, LivePublisher, RecordSource
from tardis_machine.sources.live.listeners import Failure, FeedListener, Loss
from tardis_machine.sources.live.source import LiveSource, Subscription

BOOKS = "book_change"

Classes: TypeAlias = frozenset[type[Record]]

ViewKey: TypeAlias = tuple[
    str,
    float | None,
    tuple[str, ...],
    tuple[ComputedSpec, ...],
    frozenset[str] | None,
    Classes,
]


class Member(Protocol):
    """A client that sees a view."""

    def take(self, chunk: LiveChunk) -> None:
        """Take records."""

    def failed(self, failure: Failure) -> None:
        """Hear that something failed."""

    def lost(self, loss: Loss) -> None:
        """Hear that something starts over."""


class View(RecordSource, FeedListener):
    """Selects and computes what an entry of a request asks for."""

    def __init__(
        self, entry: StreamEntry, classes: Classes, publisher: LivePublisher | None
    ) -> None:
        super().__init__()
        self._publisher = publisher
        self.members: dict[Member, None] = {}
        self.subscription: Subscription
        self._exchange = entry.exchange.id
        self._types = frozenset(entry.source_types)
        self._symbols = entry.symbols
        self._computables = Computables(entry.computed) if entry.computed else None
        self._classes = classes
        self._at_once = records_at_once(entry.computed)

    def take_records(self, records: Sequence[Record]) -> None:
        """Hand on what passes."""
        passed = self.passed(records)
        if passed:
            self._publish_computed(passed)
            for start in range(0, len(passed), self._at_once):
                chunk = LiveChunk(passed[start : start + self._at_once])
                for member in [*self.members]:
                    member.take(chunk)

    def passed(self, records: Sequence[Record]) -> list[Record]:
        """Return what reaches clients, computed records included."""
        symbols, classes = self._symbols, self._classes
        if symbols is not None:
            records = [record for record in records if record.symbol in symbols]  # type: ignore[attr-defined]
        if self._computables is not None:
            records = self._computables.apply(records)
        return [record for record in records if type(record) in classes]

    def _publish_computed(self, records: Sequence[Record]) -> None:
        """Publish what is made here; the feed's tap publishes what it is made of."""
        if self._publisher is not None and self._computables is not None:
            computed = [record for record in records if type(record) in COMPUTED]
            self._publisher.publish(self, self._exchange, computed)

    def failed(self, failure: Failure) -> None:
        """Tell every client."""
        for member in [*self.members]:
            member.failed(failure)

    def lost(self, loss: Loss) -> None:
        """Start computed records over, and tell every client whom it concerns."""
        if loss.data_types.isdisjoint(self._types):
            return
        if self._computables is not None:
            self._computables.forget(self._exchange, loss.data_types, loss.concerns)
        for member in [*self.members]:
            member.lost(loss)


class LiveViews:
    """The views of a process; equal ones are one.

    Args:
        source: of their records.
        publisher: takes computed records; None: nothing is published.
    """

    def __init__(self, source: LiveSource, publisher: LivePublisher | None = None) -> None:
        self.source = source
        self.publisher = publisher
        self.backlog = Backlog(source.settings.stream_queue_max_bytes)
        self._views: dict[ViewKey, View] = {}

    def join(self, member: Member, entry: StreamEntry, classes: Classes) -> ViewKey:
        """Let a client see an entry; one that joins late begins with the books of now.

        Raises:
            RequestError: the venue does not stream that.
        """
        key = (
            entry.exchange.id,
            entry.timeout_seconds,
            entry.source_types,
            entry.computed,
            entry.symbols,
            classes,
        )
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = self._open(entry, classes)
            books = view.passed(self._held_books(view, entry))
        else:
            books = [book for book in self._held_books(view, entry) if BookChange in classes]
        if books:
            member.take(LiveChunk(books))
        view.members[member] = None
        return key

    def leave(self, member: Member, key: ViewKey) -> None:
        """Let a client see an entry no longer; a view without clients ends."""
        view = self._views.get(key)
        if view is None:
            return
        view.members.pop(member, None)
        if not view.members:
            del self._views[key]
            view.subscription.close()

    def _open(self, entry: StreamEntry, classes: Classes) -> View:
        view = View(entry, classes, self.publisher)
        view.subscription = self.source.subscribe(
            entry.exchange, view, entry.source_types, entry.filters, entry.timeout_seconds
        )
        return view

    def _held_books(self, view: View, entry: StreamEntry) -> list[Record]:
        feed = self.source.feed(view.subscription.key)
        if feed is None or BOOKS not in entry.source_types:
            return []
        return [*feed.held_books(entry.symbols)]
