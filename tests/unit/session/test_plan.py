"""From a request to a plan: what is refused, in which order and words, and what is planned."""

from typing import Any

import msgspec
import pytest

from tardis_machine.model.control import Disconnect
from tardis_machine.model.data_types import BookSnapshotSpec
from tardis_machine.model.errors import RequestError
from tardis_machine.model.records import BlankTrade, BookSnapshot, EncodedBookSnapshot, Trade
from tardis_machine.model.requests import (
    Filter,
    NormalizedReplayRequest,
    ReplayRange,
    ReplayRequest,
)
from tardis_machine.model.time import MINUTE_US, parse_us
from tardis_machine.session.plan import NormalizedPlan, RawPlan, plan_normalized, plan_raw

NOW_US = parse_us("2026-01-01T00:00:00.000Z")
START_US = parse_us("2024-03-01T00:00:00.000Z")
RAW: dict[str, Any] = {"exchange": "bitmex", "from": "2024-03-01", "to": "2024-03-01T00:02"}
NORMALIZED: dict[str, Any] = {**RAW, "dataTypes": ["trade"]}
ABSENT = object()


def raw(**changes: Any) -> RawPlan:
    return plan_raw(msgspec.convert(changed(RAW, changes), ReplayRequest))


def normalized(*entries: dict[str, Any]) -> NormalizedPlan:
    asked = [
        msgspec.convert(changed(NORMALIZED, entry), NormalizedReplayRequest) for entry in entries
    ]
    return plan_normalized(asked, NOW_US)


def changed(options: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = {**options, **changes}
    return {name: value for name, value in merged.items() if value is not ABSENT}


WRONG = {
    "exchange": ("nope", 'Invalid "exchange" argument: nope. Please provide one of the following'),
    "from": ("soon", 'Invalid "from" argument: soon. Please provide valid date string.'),
    "to": ("later", 'Invalid "to" argument: later. Please provide valid date string.'),
    "filters": (
        [{"channel": "trades"}],
        'Invalid "filters[].channel" argument: trades. Please provide one of the following channel',
    ),
}


@pytest.mark.parametrize("first", range(len(WRONG)))
def test_first_wrong_argument_of_a_raw_request_is_named(first: int) -> None:
    names = list(WRONG)[first:]
    with pytest.raises(RequestError) as caught:
        raw(**{name: WRONG[name][0] for name in names})
    assert str(caught.value).startswith(WRONG[names[0]][1])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"exchange": ABSENT}, 'Invalid "exchange" argument: undefined.'),
        ({"exchange": ["bitmex"]}, "Invalid \"exchange\" argument: ['bitmex']."),
        ({"from": ABSENT}, 'Invalid "from" argument: undefined.'),
        ({"to": 5}, 'Invalid "to" argument: 5.'),
        (
            {"to": "2024-02-29"},
            'Invalid "to" and "from" arguments combination. '
            'Please provide "to" date that is later than "from" date.',
        ),
        ({"filters": "trade"}, 'Invalid "filters" argument: trade.'),
        ({"filters": ["trade"]}, 'Invalid "filters[].channel" argument: undefined.'),
        (
            {"filters": [{"channel": "trade", "symbols": "XBTUSD"}]},
            'Invalid "filters[].symbols" argument: XBTUSD. Please provide array of symbol strings',
        ),
        ({"speed": 0}, 'Invalid "speed" argument: 0.'),
        ({"speed": True}, 'Invalid "speed" argument: True.'),
        ({"speed": "2"}, 'Invalid "speed" argument: 2.'),
    ],
)
def test_wrong_argument_is_shown_as_it_came(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError) as caught:
        raw(**changes)
    assert str(caught.value).startswith(text)


def test_exchanges_are_listed_in_the_order_of_the_api() -> None:
    with pytest.raises(RequestError, match=r"exchanges: aster, aster-futures, bitmex, .*\.$"):
        raw(exchange="")


def test_raw_range_is_cut_to_whole_minutes() -> None:
    plan = raw(**{"from": "2024-03-01T00:00:30", "to": "2024-03-01T00:02:59.9"})
    assert plan.range == ReplayRange(START_US, START_US + 2 * MINUTE_US)
    exact = raw(to="2024-03-01T00:00:00.5", exactRange=True)
    assert exact.range == ReplayRange(START_US, START_US + 500_000)
    assert (plan.is_exact, exact.is_exact) == (False, True)


def test_only_true_itself_switches_options_on() -> None:
    plan = raw(withDisconnects="yes", autoCleanup=1, exactRange="true")
    assert (plan.with_disconnects, plan.archive.auto_cleanup, plan.is_exact) == (False,) * 3
    plan = raw(withDisconnects=True, autoCleanup=True)
    assert (plan.with_disconnects, plan.archive.auto_cleanup) == (True, True)


@pytest.mark.parametrize(
    ("asked", "minutes"),
    [(False, None), (0, None), (True, 30), (2, 6), (90, 90), ("yes", None), (None, None)],
)
def test_waiting_has_a_least_and_a_usual_time(asked: Any, minutes: float | None) -> None:
    assert raw(waitWhenDataNotYetAvailable=asked).archive.wait_minutes == minutes


def test_key_of_a_request_goes_with_its_plan() -> None:
    assert raw(apiKey="k").archive.api_key == "k"
    assert normalized({"apiKey": "k"}).entries[0].archive.api_key == "k"


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([{}, {"dataTypes": ABSENT}], 'Invalid "dataTypes" argument: None.'),
        ([{"dataTypes": "trade", "from": "x"}], 'Invalid "dataTypes" argument: trade.'),
        (
            [{"from": "x"}, {"dataTypes": ["option_summary"]}],
            "normalizeOptionsSummary: bitmex not supported",
        ),
        ([{"exchange": "nope"}], "normalizeTrades: nope not supported"),
        ([{"exchange": ABSENT}], "normalizeTrades: undefined not supported"),
        ([{"from": "x", "dataTypes": ["trade", "quote_x"]}], "invalid data type: quote_x"),
        ([{"dataTypes": []}], "Can't normalize data without any normalizers provided"),
        ([{"dataTypes": ["trades"]}], "Can't normalize data without any normalizers provided"),
        (
            [{"exchange": "nope", "dataTypes": ["trades"]}],
            "Can't normalize data without any normalizers provided",
        ),
        ([{"from": "x", "symbols": "XBTUSD"}], 'Invalid "from" argument: x.'),
        ([{"symbols": "XBTUSD"}], 'Invalid "symbols" argument: XBTUSD.'),
        ([{"symbols": [1]}], 'Invalid "symbols" argument: [1].'),
        ([{"speed": 1}, {"speed": 2}], 'Invalid "speed" argument: entries of one request'),
        ([{"speed": 1}, {}], 'Invalid "speed" argument: entries of one request'),
    ],
)
def test_data_types_of_every_entry_are_checked_before_dates(
    entries: list[dict[str, Any]], text: str
) -> None:
    with pytest.raises(RequestError) as caught:
        normalized(*entries)
    assert str(caught.value).startswith(text)


def test_no_entries_are_an_empty_plan() -> None:
    plan = normalized()
    assert (plan.entries, plan.exchanges, plan.speed) == ((), set(), None)


def test_entry_knows_sources_filters_and_computed_types() -> None:
    plan = normalized({"dataTypes": ["quote", "trade"], "symbols": ["xbtusd"], "speed": 2})
    entry = plan.entries[0]
    assert entry.source_types == ("trade", "book_change")
    assert entry.computed == (BookSnapshotSpec(1, 0, None, "quote"),)
    assert entry.segments[0].filters == (
        Filter("trade", ("XBTUSD",)),
        Filter("orderBookL2", ("XBTUSD",)),
    )
    assert entry.symbols == {"xbtusd", "XBTUSD"}
    assert plan.speed == 2


@pytest.mark.parametrize("symbols", [ABSENT, None, []])
def test_no_symbols_mean_all(symbols: Any) -> None:
    entry = normalized({"symbols": symbols}).entries[0]
    assert entry.symbols is None
    assert not entry.segments[0].filters[0].symbols


def test_unknown_types_are_ignored_and_told() -> None:
    plan = normalized({"dataTypes": ["trade", "trades", "disconnect", "quote_1s", "candle"]})
    assert plan.ignored_types == ("trades", "candle")


def test_entries_of_one_exchange_share_what_reaches_the_client() -> None:
    output = normalized(
        {"dataTypes": ["trade"]},
        {"dataTypes": ["quote"]},
        {"exchange": "deribit", "dataTypes": ["trade_bar_1s"]},
    ).output
    assert output.classes("bitmex") == {Trade, BlankTrade, BookSnapshot, EncodedBookSnapshot}
    assert not output.passes("deribit", "trade")
    assert output.passes("deribit", "trade_bar")


def test_disconnects_reach_the_client_when_any_entry_asks() -> None:
    asked = normalized({"withDisconnectMessages": True}, {"exchange": "deribit"})
    assert [entry.with_disconnects for entry in asked.entries] == [True, False]
    assert Disconnect in asked.output.classes("deribit")
    assert Disconnect not in normalized({}).output.classes("bitmex")
    assert Disconnect in normalized({"dataTypes": ["trade", "disconnect"]}).output.classes("bitmex")


@pytest.mark.parametrize("minutes", [1441, 1e300, float("inf")])
def test_data_is_not_waited_for_longer_than_a_day(minutes: float) -> None:
    with pytest.raises(RequestError, match="true, or a number of minutes up to 1440"):
        raw(waitWhenDataNotYetAvailable=minutes)
