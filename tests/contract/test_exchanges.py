"""What every exchange with mappers must do.

Nothing here names an exchange: a new one is under this contract as soon as it is registered, and
fails until it has golden files for each of its data types.
"""

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tardis_machine.exchanges.feeds import Access, Feed, Verdict, subscription_count
from tardis_machine.exchanges.filters import accepted_symbols, optimize_filters
from tardis_machine.exchanges.lines import LOCAL_DIGITS, MESSAGE_START
from tardis_machine.exchanges.normalizer import Normalizer
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.spec import Exchange, Mapper
from tardis_machine.exchanges.tags import SEPARATOR
from tardis_machine.exchanges.versions import (
    format_at,
    make_mappers,
    make_normalizer,
    replay_filters,
    switches_us,
    venue_of,
    version_at,
)
from tardis_machine.model.errors import MappingError
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.records import Record, decoded
from tardis_machine.model.requests import Filter
from tardis_machine.model.time import us_text
from tests.golden.cases import (
    NOW_US,
    connections,
    golden_files,
    map_steps,
    new_normalizer,
    read_steps,
    recorded_us,
)

MAPPED = [exchange for exchange in REGISTRY.values() if exchange.has_mappers]
GOLDEN = [
    pytest.param(exchange, path, id=f"{exchange.id}-{path.stem}")
    for exchange in MAPPED
    for path in golden_files(exchange.id)
]
GENERATIONS = [
    pytest.param(exchange, at_us, id=f"{exchange.id}-{us_text(at_us)[:10]}")
    for exchange in MAPPED
    for at_us in (0, *switches_us(exchange, exchange.data_types))
]
STREAMED = [exchange for exchange in MAPPED if venue_of(exchange).feed is not None]
SYMBOLS = ("BTC-USD", "eth_usdt")
UNKNOWN_TAG = "nobody,knows.this"


def in_other_form(value: Any) -> Any:
    """Reverse the keys of every object."""
    if isinstance(value, dict):
        return {key: in_other_form(value[key]) for key in reversed(value)}
    return [in_other_form(item) for item in value] if isinstance(value, list) else value


def rewritten(line: bytes) -> bytes:
    """Write a line's message in another key order, with blanks."""
    if not line:
        return line
    message = in_other_form(json.loads(line[MESSAGE_START:]))
    return line[:MESSAGE_START] + json.dumps(message, separators=(" , ", " : ")).encode()


def line_at(at_us: int, message: bytes) -> bytes:
    """Record a message at a time."""
    return f"{us_text(at_us)[:LOCAL_DIGITS]}0Z ".encode() + message


def comparable(feed: Feed, filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Return filters as frames name them: by part of the symbols, or without any."""
    named = []
    for entry in filters:
        group = feed.grouped.get(entry.channel, str)
        is_whole = entry.channel in feed.whole_market or entry.symbols is None
        # Where frames name an expiry after the symbol, filters that are read from them do not.
        names = (group(symbol).partition("@")[0] for symbol in entry.symbols or ())
        symbols = None if is_whole else tuple(names)
        named.append(Filter(entry.channel, symbols))
    return optimize_filters(named)


def access_to(feed: Feed) -> Access:
    """Return credentials where the venue streams nothing without."""
    return Access(dict.fromkeys(feed.credentials, "c2VjcmV0"))


def mapped(exchange: Exchange, lines: list[bytes]) -> list[Record]:
    """Return the records of one connection."""
    records: list[Record] = []
    new_normalizer(exchange, lines[0]).map_lines(lines, records.append)
    return records


def mapped_type(exchange: Exchange, data_type: str, lines: list[bytes]) -> list[Record]:
    """Return the records of one data type alone."""
    records: list[Record] = []
    start_us = recorded_us(lines[0])
    normalizer = make_normalizer(exchange, [data_type], start_us, NOW_US, is_live=False)
    normalizer.map_lines(lines, records.append)
    return records


def state_of(value: Any) -> Any:
    """Return what our objects hold, in a form that can be compared."""
    if isinstance(value, dict):
        return {key: state_of(held) for key, held in value.items()}
    if isinstance(value, list | set):
        return [*map(state_of, value)]
    is_ours = type(value).__module__.startswith("tardis_machine")
    return state_of(vars(value)) if is_ours and hasattr(value, "__dict__") else repr(value)


def symbols_of(exchange: Exchange, line: bytes) -> tuple[str, ...]:
    """Return the symbols that filters select a line by."""
    wire_format, message = format_at(exchange, recorded_us(line), NOW_US), line[MESSAGE_START:]
    located = Normalizer(exchange.id, wire_format, []).locate(message)
    if located is not None and located.symbols:
        return located.symbols
    return () if wire_format.symbols is None else wire_format.symbols(message)


def mapped_by(exchange: Exchange, mapper: Mapper, lines: list[bytes]) -> list[Record]:
    """Return what a mapper, with whatever it knows already, makes of lines."""
    records: list[Record] = []
    wire_format = format_at(exchange, recorded_us(lines[0]), NOW_US)
    Normalizer(exchange.id, wire_format, [mapper]).map_lines(lines, records.append)
    return records


@pytest.mark.parametrize("exchange", MAPPED, ids=lambda exchange: exchange.id)
class ExchangeContract:
    """What holds for an exchange as a whole."""

    def test_venue_has_a_version_and_a_format_for_every_date(self, exchange: Exchange) -> None:
        venue = venue_of(exchange)
        assert {name: len(versions) for name, versions in venue.versions.items()} == {
            name: len(exchange.switches_us.get(name, ())) + 1 for name in exchange.data_types
        }
        assert len(venue.formats) == len(exchange.format_switches_us) + 1

    def test_filters_name_channels_of_the_catalog(self, exchange: Exchange) -> None:
        for versions in venue_of(exchange).versions.values():
            for version in versions:
                for symbols in (None, (), SYMBOLS):
                    filters = version.filters(symbols)
                    assert filters
                    assert {entry.channel for entry in filters} <= set(exchange.channels)

    def test_switch_dates_ascend(self, exchange: Exchange) -> None:
        for dates_us in (*exchange.switches_us.values(), exchange.format_switches_us):
            assert list(dates_us) == sorted(set(dates_us))

    def test_golden_files_cover_every_version(self, exchange: Exchange) -> None:
        covered = {
            (name, id(version_at(exchange, name, recorded_us(step.line), NOW_US)))
            for path in golden_files(exchange.id)
            for step in read_steps(path)
            for name in {json.loads(line)["type"] for line in step.expected}
        }
        missing = [
            (name, index)
            for name, versions in venue_of(exchange).versions.items()
            for index, version in enumerate(versions)
            if (name, id(version)) not in covered
        ]
        assert missing == []


@pytest.mark.parametrize(("exchange", "at_us"), GENERATIONS)
class GenerationContract:
    """What holds for an exchange at each date from which something changed."""

    def test_filters_ask_for_all_symbols_only_without_any(
        self, exchange: Exchange, at_us: int
    ) -> None:
        filters = replay_filters(exchange, exchange.data_types, None, at_us, NOW_US)
        assert not any(entry.symbols for entry in filters)
        filters = replay_filters(exchange, exchange.data_types, SYMBOLS, at_us, NOW_US)
        accepted = accepted_symbols(SYMBOLS, filters)
        assert accepted is not None
        assert set(SYMBOLS) <= accepted

    def test_message_without_tag_is_ignored(self, exchange: Exchange, at_us: int) -> None:
        assert mapped(exchange, [line_at(at_us, b'{"result":null,"id":1}')]) == []

    @pytest.mark.parametrize("message", [b"", b"pong", b'"pong"', b"{", b"\xff\xfe", b"12"])
    def test_line_that_is_no_json_message_is_an_error(
        self, exchange: Exchange, at_us: int, message: bytes
    ) -> None:
        with pytest.raises(MappingError, match=exchange.id):
            mapped(exchange, [line_at(at_us, message)])

    def test_unknown_subscribe_message_is_not_mapped(self, exchange: Exchange, at_us: int) -> None:
        wire_format = format_at(exchange, at_us, NOW_US)
        expected = [] if wire_format.replays_whole_feed else None
        assert wire_format.read_subscribe({"hello": "there"}) == expected


@pytest.mark.parametrize("exchange", STREAMED, ids=lambda exchange: exchange.id)
class FeedContract:
    """What holds for an exchange that can be streamed live."""

    def test_subscribe_frames_ask_for_the_filters(self, exchange: Exchange) -> None:
        venue = venue_of(exchange)
        assert venue.feed is not None
        wanted = replay_filters(exchange, exchange.data_types, SYMBOLS, 0, NOW_US, is_live=True)
        messages = [
            json.loads(frame)
            for connection in venue.feed.connections(wanted, access_to(venue.feed))
            for frame in connection.frames
        ]
        read = [venue.feed.read_subscribe(message) or [] for message in messages]
        without_frame = venue.feed.recorded_only | venue.feed.generated
        asked = comparable(
            venue.feed, (entry for entry in wanted if entry.channel not in without_frame)
        )
        # A channel may bring more types of messages than were asked for.
        assert set(asked) <= set(comparable(venue.feed, chain(*read)))

    def test_connections_bring_the_filters_and_no_others(self, exchange: Exchange) -> None:
        feed = venue_of(exchange).feed
        assert feed is not None
        wanted = replay_filters(exchange, exchange.data_types, SYMBOLS, 0, NOW_US, is_live=True)
        connections = feed.connections(wanted, access_to(feed))
        brought = chain.from_iterable(connection.filters for connection in connections)
        assert comparable(feed, brought) == comparable(
            feed, (entry for entry in wanted if entry.channel not in feed.recorded_only)
        )

    def test_many_symbols_keep_the_limit_of_a_connection(self, exchange: Exchange) -> None:
        feed = venue_of(exchange).feed
        assert feed is not None
        symbols = [f"COIN{number}-USD" for number in range(2000)]
        wanted = replay_filters(exchange, ["trade"], symbols, 0, NOW_US, is_live=True)
        connections = feed.connections(wanted, access_to(feed))
        counts = [subscription_count(connection.filters) for connection in connections]
        assert sum(counts) == len(symbols)
        assert feed.max_subscriptions is None or max(counts) <= feed.max_subscriptions

    def test_same_filters_are_planned_alike_when_a_connection_starts_over(
        self, exchange: Exchange
    ) -> None:
        feed = venue_of(exchange).feed
        assert feed is not None
        wanted = replay_filters(exchange, exchange.data_types, SYMBOLS, 0, NOW_US, is_live=True)
        for connection in feed.connections(wanted, access_to(feed)):
            [again] = feed.connections(connection.filters, access_to(feed))
            assert (again.url, again.filters, again.frames) == (
                connection.url,
                connection.filters,
                connection.frames,
            )

    @pytest.mark.parametrize("message", [b"", b"pong", b"{", b"\xff\xfe"])
    def test_text_that_is_no_json_is_no_harmless_message(
        self, exchange: Exchange, message: bytes
    ) -> None:
        feed = venue_of(exchange).feed
        assert feed is not None
        with pytest.raises(msgspec.DecodeError):
            feed.judge(message)

    def test_unknown_object_has_a_verdict(self, exchange: Exchange) -> None:
        feed = venue_of(exchange).feed
        assert feed is not None
        assert feed.judge(b'{"hello":"there"}') in (Verdict.IGNORED, Verdict.ERROR)

    def test_other_messages_are_no_subscriptions(self, exchange: Exchange) -> None:
        feed = venue_of(exchange).feed
        assert feed is not None
        assert feed.read_subscribe({"hello": "there"}) is None


@pytest.mark.parametrize(("exchange", "path"), GOLDEN)
class GoldenContract:
    """What holds for each recorded example."""

    def test_lines_give_the_written_records(self, exchange: Exchange, path: Path) -> None:
        steps = read_steps(path)
        results = map_steps(exchange, [step.line for step in steps])
        for step, result in zip(steps, results, strict=True):
            assert result == step.expected, step.line

    def test_key_order_and_blanks_do_not_matter(self, exchange: Exchange, path: Path) -> None:
        steps = read_steps(path)
        results = map_steps(exchange, [rewritten(step.line) for step in steps])
        assert list(results) == [step.expected for step in steps]

    def test_unknown_tag_is_ignored(self, exchange: Exchange, path: Path) -> None:
        for [line, *_] in connections(path):
            tag = format_at(exchange, recorded_us(line), NOW_US).tag
            [key] = tag.keys([line], MESSAGE_START)
            other = line.replace(key, tag.key_of(UNKNOWN_TAG))
            if key not in line:
                # The texts of the tag stand apart from each other.
                texts = (tag.read(line[MESSAGE_START:]) or "").split(SEPARATOR)
                for old, new in zip(texts, UNKNOWN_TAG.split(SEPARATOR), strict=True):
                    other = other.replace(f'"{old}"'.encode(), f'"{new}"'.encode(), 1)
            assert other != line
            json.loads(other[MESSAGE_START:])
            assert mapped(exchange, [other, other, rewritten(other)]) == []

    def test_live_messages_give_the_same_records(self, exchange: Exchange, path: Path) -> None:
        for lines in connections(path):
            live: list[Record] = []
            normalizer = new_normalizer(exchange, lines[0])
            for line in lines:
                local = line[:LOCAL_DIGITS].decode() + "Z"
                normalizer.map_message(line[MESSAGE_START:], local, live.append)
            assert live == mapped(exchange, lines)

    def test_connections_share_no_state(self, exchange: Exchange, path: Path) -> None:
        for lines in connections(path):
            alone = mapped(exchange, lines)
            first, second = new_normalizer(exchange, lines[0]), new_normalizer(exchange, lines[0])
            outputs: tuple[list[Record], list[Record]] = ([], [])
            for line in lines:
                first.map_lines([line], outputs[0].append)
                second.map_lines([line], outputs[1].append)
            assert outputs == (alone, alone)

    def test_stateless_mappers_need_no_earlier_message(
        self, exchange: Exchange, path: Path
    ) -> None:
        for lines in connections(path):
            for name in exchange.data_types:
                version = version_at(exchange, name, recorded_us(lines[0]), NOW_US)
                if version.mapper.is_stateless:
                    alone = [mapped_type(exchange, name, [line]) for line in lines]
                    assert [*chain(*alone)] == mapped_type(exchange, name, lines)

    def test_forgotten_symbols_leave_nothing_behind(self, exchange: Exchange, path: Path) -> None:
        for lines in connections(path):
            for name in exchange.data_types:
                start_us = recorded_us(lines[0])
                [mapper] = make_mappers(exchange, [name], start_us, NOW_US, is_live=False)
                unused = state_of(mapper)
                first = mapped_by(exchange, mapper, lines)
                named = chain(*(symbols_of(exchange, line) for line in lines))
                symbols = {record.symbol for record in first}  # type: ignore[attr-defined]
                for symbol in symbols.union(SYMBOLS, named):
                    mapper.forget(symbol.upper())
                assert state_of(mapper) == unused
                assert mapped_by(exchange, mapper, lines) == first

    def test_failure_keeps_what_came_before(self, exchange: Exchange, path: Path) -> None:
        for lines in connections(path):
            records: list[Record] = []
            with pytest.raises(MappingError, match=r"Received: .*no json"):
                new_normalizer(exchange, lines[0]).map_lines(
                    [*lines, lines[0][:MESSAGE_START] + b"no json"], records.append
                )
            assert records == mapped(exchange, lines)

    def test_records_survive_the_wire(self, exchange: Exchange, path: Path) -> None:
        for lines in connections(path):
            records = mapped(exchange, lines)
            assert list(decode_lines(encode_lines(records))) == [*map(decoded, records)]

    def test_data_types_map_alone_as_together(self, exchange: Exchange, path: Path) -> None:
        for lines in connections(path):
            together = mapped(exchange, lines)
            for name in exchange.data_types:
                alone = mapped_type(exchange, name, lines)
                assert alone == [record for record in together if record.type == name]

    def test_own_filters_select_every_line_that_counts(
        self, exchange: Exchange, path: Path
    ) -> None:
        for lines in connections(path):
            records = mapped(exchange, lines)
            symbols = sorted({record.symbol for record in records})  # type: ignore[attr-defined]
            for wanted in (None, symbols):
                start_us = recorded_us(lines[0])
                filters = replay_filters(exchange, exchange.data_types, wanted, start_us, NOW_US)
                selected = LineFilter(exchange, filters).select(lines)
                assert not records or mapped(exchange, selected) == records

    def test_filter_for_another_channel_selects_nothing(
        self, exchange: Exchange, path: Path
    ) -> None:
        lines = [step.line for step in read_steps(path)]
        gaps = [line for line in lines if not line]
        assert LineFilter(exchange, [Filter("no such channel")]).select(lines) == gaps


class TestExchanges(ExchangeContract):
    """All exchanges with mappers."""


class TestGenerations(GenerationContract):
    """All their dates."""


class TestFeeds(FeedContract):
    """All that can be streamed live."""


class TestGolden(GoldenContract):
    """All golden files."""
