"""Messages of any shape give records, a typed error or nothing, whatever the venue.

Every exchange with mappers is under this test; what is changed are messages of its golden files.
What they give is the same whether compiled code reads them and levels stay text, or msgspec decodes
them.
"""

import json
from collections import Counter
from collections.abc import Callable
from itertools import chain
from random import Random
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Verdict
from tardis_machine.exchanges.lines import MESSAGE_START
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import replay_filters, venue_of
from tardis_machine.model.errors import MappingError
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record
from tardis_machine.sources.live.errors import ExchangeError
from tardis_machine.sources.live.receiver import Receiver
from tests.golden.cases import NOW_US, golden_files, new_normalizer, read_steps, recorded_us
from tests.property.mutations import mutated
from tests.typed_levels import typed_mappers, typed_normalizer

MAPPED = [exchange for exchange in REGISTRY.values() if exchange.has_mappers]
RENEWED_AFTER = 50
"""Mutations that meet the same mappers, which keep what earlier ones left in them."""

TYPED = (MappingError, ExchangeError)


class Fuzz:
    """Feeds an exchange with what is nearly its messages, between real ones."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._random = Random(exchange.id)
        steps = chain.from_iterable(map(read_steps, golden_files(exchange.id)))
        self._lines = [step.line for step in steps if step.line]
        self.outcomes: Counter[str] = Counter()

    def run(self, mutations: int) -> None:
        """Try so many mutations."""
        for number in range(mutations):
            if number % RENEWED_AFTER == 0:
                self._renew()
            line = self._random.choice(self._lines)
            start, message = line[:MESSAGE_START], line[MESSAGE_START:]
            if self._random.random() < 0.5:
                self._try(self._map, line)
            self._try_all(start + mutated(self._random, message))

    def _renew(self) -> None:
        """Start a connection at the time of any line: the mappers may be of another generation."""
        line = self._random.choice(self._lines)
        exchange = self._exchange
        self._normalizer: Normalizer = new_normalizer(exchange, line)
        self._typed = typed_normalizer(exchange, line, typed_mappers(exchange, line))
        filters = replay_filters(
            exchange, exchange.data_types, ["BTC-USD"], recorded_us(line), NOW_US
        )
        self._filter = LineFilter(exchange, filters)
        self._feed = venue_of(exchange).feed
        if self._feed is not None:
            self._receiver = Receiver(
                exchange, self._feed, {}, lambda: NOW_US, lambda _: None, joined={}
            )
            self._receiver.add_types(exchange.data_types)

    def _try_all(self, line: bytes) -> None:
        self._try(self._filter.select, [line])
        self._try(self._map, line)
        if self._feed is not None:
            self._try(self._receive, line[MESSAGE_START:])

    def _try(self, step: Callable[[Any], Any], given: Any) -> None:
        try:
            self.outcomes["something" if step(given) else "nothing"] += 1
        except TYPED:
            self.outcomes["error"] += 1
        except Exception as error:
            raise AssertionError(f"{self._exchange.id} {step.__name__}: {given!r:.2000}") from error

    def _map(self, line: bytes) -> list[Record]:
        records, error = mapped(self._normalizer, line)
        typed, typed_error = mapped(self._typed, line)
        assert values_of(records) == values_of(typed)
        assert str(error) == str(typed_error)
        if error is not None:
            raise error
        return records

    def _receive(self, message: bytes) -> list[Record]:
        verdict = self._receiver.take(message)
        if verdict is Verdict.HEARTBEAT:
            assert self._feed is not None
            self._feed.answer(message)
        return self._receiver.take_records()


def mapped(normalizer: Normalizer, line: bytes) -> tuple[list[Record], MappingError | None]:
    """Return what a line gives before its error."""
    records: list[Record] = []
    try:
        normalizer.map_lines([line], records.append)
    except MappingError as error:
        return records, error
    return records, None


def values_of(records: list[Record]) -> list[Any]:
    """Return records as clients read them, with every number as a double."""
    return [json.loads(line, parse_int=float) for line in encode_lines(records).splitlines()]


def check(exchange: Exchange, mutations: int) -> None:
    fuzz = Fuzz(exchange)
    fuzz.run(mutations)
    assert all(fuzz.outcomes[name] for name in ("something", "nothing", "error")), fuzz.outcomes


@pytest.mark.parametrize("exchange", MAPPED, ids=lambda exchange: exchange.id)
def test_odd_messages_are_typed_errors_or_nothing(exchange: Exchange) -> None:
    check(exchange, mutations=200)


@pytest.mark.soak
@pytest.mark.parametrize("exchange", MAPPED, ids=lambda exchange: exchange.id)
def test_many_odd_messages_are_typed_errors_or_nothing(exchange: Exchange) -> None:
    check(exchange, mutations=10_000)
