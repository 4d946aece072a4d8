"""What every exchange with mappers must do.

Nothing here names an exchange: a new one is under this contract as soon as it is registered, and
fails until it has golden files for each of its data types.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tardis_machine.exchanges import REGISTRY
from tardis_machine.exchanges.filters import accepted_symbols
from tardis_machine.exchanges.normalizer import LOCAL_DIGITS, MESSAGE_START, Normalizer
from tardis_machine.exchanges.selection import LineFilter
from tardis_machine.exchanges.spec import Exchange
from tardis_machine.exchanges.versions import make_mappers, replay_filters
from tardis_machine.model.errors import MappingError
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.records import Record
from tardis_machine.model.requests import Filter
from tests.golden.cases import NOW_US, golden_files, map_steps, new_normalizer, read_steps

MAPPED = [exchange for exchange in REGISTRY.values() if exchange.venue is not None]
GOLDEN = [
    pytest.param(exchange, path, id=f"{exchange.id}-{path.stem}")
    for exchange in MAPPED
    for path in golden_files(exchange.id)
]
SYMBOLS = ("BTC-USD", "eth_usdt")
LINE_START = b"2024-03-01T00:00:00.0000000Z "


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


def lines_of(path: Path) -> list[bytes]:
    """Return the data lines of a golden file, without disconnects."""
    return [step.line for step in read_steps(path) if step.line]


def first_connection(path: Path) -> list[bytes]:
    """Return the lines of a golden file up to the first disconnect."""
    lines = [step.line for step in read_steps(path)]
    return lines[: lines.index(b"")] if b"" in lines else lines


def mapped(exchange: Exchange, lines: list[bytes]) -> list[Record]:
    """Return the records of one connection."""
    records: list[Record] = []
    new_normalizer(exchange, lines[0]).map_lines(lines, records.append)
    return records


@pytest.mark.parametrize("exchange", MAPPED, ids=lambda exchange: exchange.id)
class ExchangeContract:
    """What holds for an exchange as a whole."""

    def test_filters_name_channels_of_the_catalog(self, exchange: Exchange) -> None:
        assert exchange.venue is not None
        for versions in exchange.venue.versions.values():
            for version in versions:
                for symbols in (None, (), SYMBOLS):
                    filters = version.filters(symbols)
                    assert filters
                    assert {entry.channel for entry in filters} <= set(exchange.channels)

    def test_filters_ask_for_all_symbols_only_without_any(self, exchange: Exchange) -> None:
        filters = replay_filters(exchange, exchange.data_types, None, 0, NOW_US)
        assert all(entry.symbols is None for entry in filters)
        filters = replay_filters(exchange, exchange.data_types, SYMBOLS, 0, NOW_US)
        accepted = accepted_symbols(SYMBOLS, filters)
        assert accepted is not None
        assert set(SYMBOLS) <= accepted

    def test_switch_dates_ascend(self, exchange: Exchange) -> None:
        for switches_us in exchange.switches_us.values():
            assert list(switches_us) == sorted(set(switches_us))

    def test_golden_files_cover_every_data_type(self, exchange: Exchange) -> None:
        covered = {
            json.loads(line)["type"]
            for path in golden_files(exchange.id)
            for step in read_steps(path)
            for line in step.expected
        }
        assert covered == set(exchange.data_types)

    def test_unknown_tag_is_ignored(self, exchange: Exchange) -> None:
        assert exchange.venue is not None
        prefix = exchange.venue.tag.prefix
        closing = b"}" * prefix.count(b"{")
        line = LINE_START + prefix + b'nobody.knows@this"' + closing
        json.loads(line[MESSAGE_START:])
        assert mapped(exchange, [line, line, rewritten(line)]) == []

    def test_message_without_tag_is_ignored(self, exchange: Exchange) -> None:
        assert mapped(exchange, [LINE_START + b'{"result":null,"id":1}']) == []

    @pytest.mark.parametrize("message", [b"", b"pong", b'"pong"', b"{", b"\xff\xfe", b"12"])
    def test_line_that_is_no_json_object_is_an_error(
        self, exchange: Exchange, message: bytes
    ) -> None:
        with pytest.raises(MappingError, match=exchange.id):
            mapped(exchange, [LINE_START + message])

    def test_unknown_subscribe_message_is_not_mapped(self, exchange: Exchange) -> None:
        assert exchange.subscription is not None
        assert exchange.subscription({"hello": "there"}, NOW_US) is None


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

    def test_live_messages_give_the_same_records(self, exchange: Exchange, path: Path) -> None:
        lines = first_connection(path)
        live: list[Record] = []
        normalizer = new_normalizer(exchange, lines[0])
        for line in lines:
            local = line[:LOCAL_DIGITS].decode() + "Z"
            normalizer.map_message(line[MESSAGE_START:], local, live.append)
        assert live == mapped(exchange, lines)

    def test_connections_share_no_state(self, exchange: Exchange, path: Path) -> None:
        lines = first_connection(path)
        alone = mapped(exchange, lines)
        first, second = new_normalizer(exchange, lines[0]), new_normalizer(exchange, lines[0])
        outputs: tuple[list[Record], list[Record]] = ([], [])
        for line in lines:
            first.map_lines([line], outputs[0].append)
            second.map_lines([line], outputs[1].append)
        assert outputs == (alone, alone)

    def test_failure_keeps_what_came_before(self, exchange: Exchange, path: Path) -> None:
        lines = first_connection(path)
        records: list[Record] = []
        with pytest.raises(MappingError, match=r"Received: .*no json"):
            new_normalizer(exchange, lines[0]).map_lines(
                [*lines, LINE_START + b"no json"], records.append
            )
        assert records == mapped(exchange, lines)

    def test_records_survive_the_wire(self, exchange: Exchange, path: Path) -> None:
        records = mapped(exchange, first_connection(path))
        assert list(decode_lines(encode_lines(records))) == records

    def test_data_types_map_alone_as_together(self, exchange: Exchange, path: Path) -> None:
        lines = first_connection(path)
        together = mapped(exchange, lines)
        for data_type in exchange.data_types:
            alone: list[Record] = []
            mappers = make_mappers(exchange, [data_type], 0, NOW_US, is_live=False)
            Normalizer(exchange, mappers).map_lines(lines, alone.append)
            assert alone == [record for record in together if record.type == data_type]

    def test_own_filters_select_every_line_that_counts(
        self, exchange: Exchange, path: Path
    ) -> None:
        lines = first_connection(path)
        records = mapped(exchange, lines)
        symbols = sorted({record.symbol for record in records})  # type: ignore[attr-defined]
        for wanted in (None, symbols):
            filters = replay_filters(exchange, exchange.data_types, wanted, 0, NOW_US)
            selected = LineFilter(exchange, filters).select(lines)
            assert mapped(exchange, selected) == records

    def test_filter_for_another_channel_selects_nothing(
        self, exchange: Exchange, path: Path
    ) -> None:
        lines = [*lines_of(path), b""]
        assert LineFilter(exchange, [Filter("no such channel")]).select(lines) == [b""]


class TestExchanges(ExchangeContract):
    """All exchanges with mappers."""


class TestGolden(GoldenContract):
    """All golden files."""
