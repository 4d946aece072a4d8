"""Calls of public code for the conformance runner; nothing here knows a vector."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from tardis_machine.computed.books import new_book
from tardis_machine.computed.combine import Merger, local_keys
from tardis_machine.computed.grouping import decimal_places
from tardis_machine.computed.order_book import CrossedRemoval
from tardis_machine.computed.pipeline import Computables
from tardis_machine.exchanges.filters import (
    accepted_symbols,
    filters_hash,
    filters_query,
    optimize_filters,
)
from tardis_machine.exchanges.lines import LOCAL_DIGITS
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import format_at, make_normalizer, replay_filters, version_at
from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import (
    BookSnapshotSpec,
    ComputedSpec,
    TradeBarSpec,
    computed_specs,
    parse_computed,
    source_types,
)
from tardis_machine.model.errors import MappingError
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.numbers import nonzero_number, number_text, optional_number, to_number
from tardis_machine.model.records import BookChange, BookLevel, Record
from tardis_machine.model.requests import Filter, NormalizedReplayRequest
from tardis_machine.model.time import (
    auto_text,
    floor_minute,
    iso_text,
    iso_us_text,
    ms_text,
    parse_instant,
    parse_us,
    us_text,
)
from tardis_machine.session.plan import output_filter
from tardis_machine.sources.cache import minute_path

NOW_US = parse_us("2100-01-01T00:00:00.000Z")
"""After every recording, so that no time counts as recent."""


def normalize(
    exchange: str, normalizers: list[str], at: str | None, realtime: bool, steps: list[Any]
) -> Iterator[Any]:
    """Map one connection step by step."""
    known = REGISTRY[exchange]
    normalizer = None
    for step in steps:
        if step.get("disconnect"):
            normalizer, at = None, None
            yield []
            continue
        local = step["localTimestamp"] if realtime else local_text(step["line"])
        if normalizer is None:
            start_us = parse_us(at or local)
            normalizer = make_normalizer(known, normalizers, start_us, NOW_US, is_live=realtime)
        records: list[Record] = []
        try:
            if realtime:
                normalizer.map_message(step["message"], local, records.append)
            else:
                normalizer.map_lines([step["line"]], records.append)
        except MappingError as error:
            error.outputs = lines_of(records)  # type: ignore[attr-defined]
            yield error
        else:
            yield lines_of(records)


def local_text(line: bytes) -> str:
    """Return the arrival time of a recorded line."""
    return str(line[:LOCAL_DIGITS], "ascii") + "Z"


def lines_of(records: Iterable[Record]) -> list[bytes]:
    """Encode each record as a line of its own."""
    return [encode_lines([record]) for record in records]


def filters(exchange: str, normalizer: str, symbols: list[str] | None, at: str) -> Any:
    """Return what one data type asks for."""
    version = version_at(REGISTRY[exchange], normalizer, parse_us(at), NOW_US)
    return msgspec.to_builtins(version.filters(symbols))


def merged_filters(
    exchange: str, normalizers: list[str], symbols: list[str] | None, at: str
) -> dict[str, Any]:
    """Return the filters of one normalized replay."""
    merged = replay_filters(REGISTRY[exchange], normalizers, symbols, parse_us(at), NOW_US)
    return {
        "merged": msgspec.to_builtins(list(merged)),
        "optimized": msgspec.to_builtins(list(optimize_filters(merged))),
        "sha256": filters_hash(merged),
    }


def compute(computables: list[dict[str, Any]], messages: list[bytes]) -> Iterator[list[bytes]]:
    """Return what each message triggers."""
    pipeline = Computables([computed_spec(options) for options in computables])
    for record in decode_lines(b"\n".join(messages)):
        yield lines_of(pipeline.triggered_by(record))


def computed_spec(options: dict[str, Any]) -> ComputedSpec:
    """Build a spec from a data type or from explicit options."""
    if "dataType" in options:
        spec = parse_computed(options["dataType"])
        assert spec is not None
        return spec
    name = options.get("name", "")
    if options["type"] == "trade_bar":
        return TradeBarSpec(options["kind"], options["interval"], name)
    return BookSnapshotSpec(
        options["depth"],
        options["interval"],
        options.get("grouping"),
        name,
        removes_crossed_levels=options.get("removeCrossedLevels", False),
    )


def combine(streams: list[list[dict[str, str]]]) -> list[str]:
    """Merge streams of ids by local time."""
    merger: Merger[str, str] = Merger(len(streams))
    for index, stream in enumerate(streams):
        records = [
            Disconnect(exchange="", local_timestamp=item["localTimestamp"]) for item in stream
        ]
        merger.offer(index, [item["id"] for item in stream], local_keys(records))
        merger.finish(index)
    return merger.take()


def order_book(options: dict[str, bool], updates: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Show the book after each update."""
    removals: list[CrossedRemoval] = []
    book = new_book(
        removes_crossed_levels=options["removeCrossedLevels"], on_removal=removals.append
    )
    for update in updates:
        removals.clear()
        book.apply(
            BookChange(
                symbol="",
                exchange="",
                is_snapshot=update["isSnapshot"],
                bids=[BookLevel(**level) for level in update["bids"]],
                asks=[BookLevel(**level) for level in update["asks"]],
                timestamp="",
                local_timestamp="",
            )
        )
        yield {
            "bestBid": msgspec.to_builtins(book.bids.best),
            "bestAsk": msgspec.to_builtins(book.asks.best),
            "bids": [[level.price, level.amount] for level in book.bids],
            "asks": [[level.price, level.amount] for level in book.asks],
            "removedCrossedLevels": msgspec.to_builtins(removals),
        }


def map_subscription(exchange: str, from_: str, message: Any) -> dict[str, Any]:
    """Map one native subscribe message."""
    known = REGISTRY[exchange]
    if not known.has_mappers:
        return {"handled": False, "filters": []}
    start_us = parse_instant(from_)
    assert start_us is not None
    mapped = format_at(known, start_us, NOW_US).read_subscribe(message)
    return {"handled": mapped is not None, "filters": msgspec.to_builtins(mapped or [])}


def util(name: str, given: Any) -> Any:
    """Answer one small question."""
    return UTILS[name](given)


def data_types_answer(names: list[str]) -> dict[str, Any]:
    """Return the plain types and the specs behind names."""
    specs = [describe_spec(spec) for spec in computed_specs(names)]
    return {"normalizers": list(source_types(names)), "computables": specs}


def describe_spec(spec: ComputedSpec) -> dict[str, Any]:
    """Show a spec as the options it stands for."""
    common = {"name": spec.name, "interval": spec.interval}
    if isinstance(spec, TradeBarSpec):
        return {"type": "trade_bar", **common, "kind": spec.kind}
    grouping = {} if spec.grouping is None else {"grouping": spec.grouping}
    crossed = {"removeCrossedLevels": spec.removes_crossed_levels}
    return {"type": "book_snapshot", **common, "depth": spec.depth, **grouping, **crossed}


def exchange_timestamps_answer(text: str) -> dict[str, Any]:
    """Return both forms of a venue's time."""
    wire = iso_us_text(text)
    return {"ms": iso_text(text), "micros": int(wire[-4:-1]), "wire": wire}


def number_format_answer(text: str) -> str:
    """Return the text of a JSON number."""
    return number_text(msgspec.json.decode(text.encode(), type=float))


def number_parse_answer(value: Any) -> dict[str, Any]:
    """Return a value read in the three ways."""
    return {
        "number": describe_number(to_number(value)),
        "optional": describe_number(optional_number(value)),
        "nonZero": describe_number(nonzero_number(value)),
    }


def describe_number(value: float | None) -> dict[str, Any]:
    """Show a number, or why there is none."""
    if value is None:
        return {"undefined": True}
    if math.isnan(value):
        return {"nan": True}
    if math.isinf(value):
        return {"infinity": int(math.copysign(1, value))}
    return {"value": number_text(value)}


def okx_environment_answer(given: dict[str, Any]) -> Any:
    """Return what a data type asks for with the credentials of an environment."""
    version = version_at(
        REGISTRY[given["exchange"]],
        given["normalizer"],
        parse_us(given["date"]),
        NOW_US,
        environment=given["environment"],
    )
    return msgspec.to_builtins(version.filters(given["symbols"]))


def optimize_filters_answer(given: list[dict[str, Any]]) -> dict[str, Any]:
    """Return filters as sent, hashed and in a query."""
    parsed = msgspec.convert(given, list[Filter])
    return {
        "optimized": msgspec.to_builtins(list(optimize_filters(parsed))),
        "sha256": filters_hash(parsed),
        "query": filters_query(parsed),
    }


def output_filter_answer(given: dict[str, Any]) -> list[str]:
    """Return the candidates `exchange:type` that reach the client."""
    output = output_filter(msgspec.convert(given["options"], list[NormalizedReplayRequest]))
    return [each for each in given["candidates"] if output.passes(*each.split(":"))]


def parse_utc_date_answer(text: str) -> dict[str, Any]:
    """Return the minute a date argument names."""
    instant_us = parse_instant(text)
    if instant_us is None:
        return {"valid": False, "result": None}
    return {"valid": True, "result": ms_text(floor_minute(instant_us) // 1000)}


def symbol_filter_answer(given: dict[str, Any]) -> list[str]:
    """Return the candidates that pass on to the client."""
    native = msgspec.convert(given["filters"], list[Filter])
    accepted = accepted_symbols(given["symbols"], native)
    return [each for each in given["candidates"] if accepted is None or each in accepted]


def exchanges_answer(exchange: str) -> dict[str, Any]:
    """Return what the catalog knows about an exchange."""
    known = REGISTRY[exchange]
    return {
        "normalizers": list(known.data_types),
        "channels": list(known.channels),
        "switchDates": {
            name: [ms_text(switch_us // 1000) for switch_us in switches_us]
            for name, switches_us in known.switches_us.items()
        },
    }


UTILS: dict[str, Callable[[Any], Any]] = {
    "data_types": data_types_answer,
    "decimal_places": decimal_places,
    "epoch_numbers": auto_text,
    "exchange_timestamps": exchange_timestamps_answer,
    "exchanges": exchanges_answer,
    "number_format": lambda text: dict.fromkeys(("wire", "string"), number_format_answer(text)),
    "number_parse": number_parse_answer,
    "okx_environment": okx_environment_answer,
    "optimize_filters": optimize_filters_answer,
    "output_filter": output_filter_answer,
    "parse_utc_date": parse_utc_date_answer,
    "slice_paths": lambda text: minute_path(parse_us(text)),
    "slice_timestamps": lambda text: us_text(parse_us(text)),
    "symbol_filter": symbol_filter_answer,
}
