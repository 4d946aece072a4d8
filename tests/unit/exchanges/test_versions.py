"""Dated versions: which one serves a time, where ranges are cut, what is refused."""

import pytest

from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import (
    Exchange,
    Handler,
    Mapper,
    Venue,
    Version,
    WireFormat,
    channel_filters,
)
from tardis_machine.exchanges.tags import KeyTag
from tardis_machine.exchanges.versions import (
    check_supported,
    format_at,
    make_mappers,
    replay_filters,
    segments,
    version_at,
)
from tardis_machine.model.errors import UnsupportedError
from tardis_machine.model.requests import Filter, ReplayRange
from tardis_machine.model.time import MINUTE_US

FIRST_US, SECOND_US, NOW_US = 1_000 * MINUTE_US, 2_000 * MINUTE_US, 9_000 * MINUTE_US


class Old(Mapper):
    """The mapper of the first generation."""

    def handler(self, tag: str) -> Handler | None:
        return None


class Middle(Old):
    """The mapper of the second generation."""


class New(Old):
    """The mapper of today."""


# A known id, because error texts are about known ids.
EXCHANGE = Exchange(
    id="bitmex",
    channels=("old", "middle", "new", "book"),
    data_types=("trade", "book_change"),
    switches_us={"trade": (FIRST_US, SECOND_US)},
    format_switches_us=(SECOND_US,),
    load_venue=lambda: VENUE,
)
VENUE = Venue(
    versions={
        "trade": (
            Version(Old, channel_filters("old")),
            Version(Middle, channel_filters("middle", "book")),
            Version(New, channel_filters("new", convert=str.lower)),
        ),
        "book_change": (Version(Old, channel_filters("book")),),
    },
    formats=tuple(
        WireFormat(tag=KeyTag(name), locate=Filter, read_subscribe=lambda message: None)
        for name in ("old", "new")
    ),
)


@pytest.mark.parametrize(
    ("at_us", "mapper"),
    [
        (0, Old),
        (FIRST_US - 1, Old),
        (FIRST_US, Middle),
        (SECOND_US - 1, Middle),
        (SECOND_US, New),
        (NOW_US, New),
    ],
)
def test_version_starts_at_its_switch_date(at_us: int, mapper: type[Mapper]) -> None:
    assert version_at(EXCHANGE, "trade", at_us, NOW_US).mapper is mapper


def test_time_within_three_minutes_of_now_gets_the_newest_version() -> None:
    at_us = FIRST_US - 1
    assert version_at(EXCHANGE, "trade", at_us, at_us + 3 * MINUTE_US).mapper is Old
    assert version_at(EXCHANGE, "trade", at_us, at_us + 3 * MINUTE_US - 1).mapper is New


def test_live_connection_gets_the_newest_version() -> None:
    assert version_at(EXCHANGE, "trade", 0, NOW_US, is_live=True).mapper is New
    (mapper,) = make_mappers(EXCHANGE, ["trade"], 0, NOW_US, is_live=True)
    assert isinstance(mapper, New)
    assert mapper.is_live


def test_mappers_are_new_and_in_the_order_of_the_data_types() -> None:
    first = make_mappers(EXCHANGE, ["book_change", "trade"], SECOND_US, NOW_US, is_live=False)
    second = make_mappers(EXCHANGE, ["book_change", "trade"], SECOND_US, NOW_US, is_live=False)
    assert [type(mapper) for mapper in first] == [Old, New]
    assert [mapper.exchange for mapper in first] == ["bitmex", "bitmex"]
    assert not {id(mapper) for mapper in first} & {id(mapper) for mapper in second}


def test_filters_of_several_data_types_are_merged() -> None:
    filters = replay_filters(EXCHANGE, ["trade", "book_change"], ["X"], FIRST_US, NOW_US)
    assert filters == (Filter("middle", ("X",)), Filter("book", ("X",)))


def test_filters_follow_the_version_and_its_spelling() -> None:
    assert replay_filters(EXCHANGE, ["trade"], ["X"], NOW_US, NOW_US) == (Filter("new", ("x",)),)
    assert replay_filters(EXCHANGE, ["trade"], None, 0, NOW_US) == (Filter("old"),)
    assert replay_filters(EXCHANGE, ["trade"], [], 0, NOW_US) == (Filter("old", ()),)


def test_range_is_cut_at_switches_inside_it() -> None:
    parts = segments(EXCHANGE, ["book_change", "trade"], ReplayRange(0, NOW_US))
    assert parts == (
        ReplayRange(0, FIRST_US),
        ReplayRange(FIRST_US, SECOND_US),
        ReplayRange(SECOND_US, NOW_US),
    )


def test_range_is_not_cut_at_its_ends() -> None:
    whole = ReplayRange(FIRST_US, SECOND_US)
    assert segments(EXCHANGE, ["trade"], whole) == (whole,)


def test_range_is_not_cut_for_data_types_that_did_not_change() -> None:
    whole = ReplayRange(0, SECOND_US)
    assert segments(EXCHANGE, ["book_change"], whole) == (whole,)


def test_new_wire_format_cuts_every_range() -> None:
    parts = segments(EXCHANGE, ["book_change"], ReplayRange(0, NOW_US))
    assert parts == (ReplayRange(0, SECOND_US), ReplayRange(SECOND_US, NOW_US))


@pytest.mark.parametrize(("at_us", "index"), [(0, 0), (SECOND_US - 1, 0), (SECOND_US, 1)])
def test_wire_format_starts_at_its_date(at_us: int, index: int) -> None:
    assert format_at(EXCHANGE, at_us, NOW_US) is VENUE.formats[index]


def test_recent_and_live_messages_are_in_the_newest_format() -> None:
    newest = VENUE.formats[-1]
    assert format_at(EXCHANGE, 0, NOW_US, is_live=True) is newest
    assert format_at(EXCHANGE, FIRST_US, FIRST_US + 3 * MINUTE_US - 1) is newest


def test_common_switch_date_cuts_once() -> None:
    range_ = ReplayRange(0, REGISTRY["kraken"].switches_us["trade"][0] + 1)
    assert len(segments(REGISTRY["kraken"], ["trade", "book_change"], range_)) == 2


def test_empty_range_stays_one_segment() -> None:
    assert segments(EXCHANGE, ["trade"], ReplayRange(5, 5)) == (ReplayRange(5, 5),)


@pytest.mark.parametrize(
    ("exchange", "data_type", "text"),
    [
        ("coinbase", "liquidation", "normalizeLiquidations: coinbase not supported"),
        ("bitmex", "option_summary", "normalizeOptionsSummary: bitmex not supported"),
        ("binance", "derivative_ticker", "normalizeDerivativeTickers: binance not supported"),
        ("binance-jersey", "book_ticker", "normalizeBookTickers: binance-jersey not supported"),
        ("nowhere", "trade", "normalizeTrades: nowhere not supported"),
        (None, "book_change", "normalizeBookChanges: undefined not supported"),
        (["bitmex"], "trade", r"normalizeTrades: \['bitmex'\] not supported"),
    ],
)
def test_unsupported_pair_is_refused_in_known_words(
    exchange: object, data_type: str, text: str
) -> None:
    with pytest.raises(UnsupportedError, match=f"^{text}$"):
        check_supported(exchange, [data_type])


def test_supported_pairs_pass() -> None:
    check_supported("deribit", ["trade", "option_summary", "book_ticker"])
    check_supported("nowhere", [])


def test_exchange_without_mappers_says_so_and_who_has_them() -> None:
    unmapped = next(name for name, exchange in REGISTRY.items() if not exchange.has_mappers)
    with pytest.raises(UnsupportedError, match=f"{unmapped} has no mappers yet.*bitmex, deribit"):
        check_supported(unmapped, ["trade"])
    with pytest.raises(UnsupportedError, match=f"{unmapped} has no mappers yet"):
        make_mappers(REGISTRY[unmapped], ["trade"], 0, NOW_US, is_live=False)
