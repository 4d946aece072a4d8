import pytest

from tardis_machine.model.data_types import (
    BookSnapshotSpec,
    ComputedSpec,
    TradeBarSpec,
    check_data_types,
    computed_specs,
    output_type,
    parse_computed,
    source_types,
)
from tardis_machine.model.errors import RequestError, UnknownNameError


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("trade_bar_10ticks", TradeBarSpec("tick", 10, "trade_bar_10ticks")),
        ("trade_bar_100ms", TradeBarSpec("time", 100, "trade_bar_100ms")),
        ("trade_bar_5s", TradeBarSpec("time", 5000, "trade_bar_5s")),
        ("trade_bar_1m", TradeBarSpec("time", 60_000, "trade_bar_1m")),
        ("trade_bar_0.5vol", TradeBarSpec("volume", 0.5, "trade_bar_0.5vol")),
        ("trade_bar_ms", TradeBarSpec("time", 0, "trade_bar_ms")),
        ("book_snapshot_5_100ms", BookSnapshotSpec(5, 100, None, "book_snapshot_5_100ms")),
        ("book_snapshot_25_0ms", BookSnapshotSpec(25, 0, None, "book_snapshot_25_0ms")),
        (
            "book_snapshot_10_grouped0.5_1m",
            BookSnapshotSpec(10, 60_000, 0.5, "book_snapshot_10_grouped0.5_1m"),
        ),
        ("quote", BookSnapshotSpec(1, 0, None, "quote")),
        ("quote_10s", BookSnapshotSpec(1, 10_000, None, "quote_10s")),
    ],
)
def test_name_is_parsed_to_its_spec(name: str, spec: ComputedSpec) -> None:
    parsed = parse_computed(name)
    assert parsed == spec
    assert parsed is not None
    assert parsed.name == name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trade_bar_10h", "invalid data type: trade_bar_10h"),
        ("trade_bar_xs", "invalid interval: x, data type: trade_bar_xs"),
        ("book_snapshot", "invalid data type: book_snapshot"),
        ("book_snapshot_5_1h", "invalid data type: book_snapshot_5_1h"),
        ("book_snapshot_a_1s", "invalid depth: a, data type: book_snapshot_a_1s"),
        (
            "book_snapshot_5_groupedx_1s",
            "invalid interval: x, data type: book_snapshot_5_groupedx_1s",
        ),
        ("quote_x", "invalid data type: quote_x"),
    ],
)
def test_malformed_name_is_refused_in_the_known_words(name: str, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_computed(name)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("book_snapshot_1000000000_1s", "invalid depth: 1000000000, data type: book_snapshot_1000"),
        ("book_snapshot_10001_1s", "invalid depth: 10001, data type: book_snapshot_10001_1s. Plea"),
        (
            "book_snapshot_-1_1s",
            "invalid depth: -1, data type: book_snapshot_-1_1s. Please provide",
        ),
        ("book_snapshot_2.5_1s", "invalid depth: 2.5, data type: book_snapshot_2.5_1s."),
        ("book_snapshot_Infinity_1s", "invalid depth: inf, data type: book_snapshot_Infinity_1s."),
        ("book_snapshot_5_grouped0_1s", "invalid grouping: 0, data type: book_snapshot_5_grouped0"),
        ("book_snapshot_5_grouped-1_1s", "invalid grouping: -1, data type: book_snapshot_5_"),
        ("book_snapshot_5_-1s", "invalid interval: -1000, data type: book_snapshot_5_-1s."),
        ("quote_-1ms", "invalid interval: -1, data type: quote_-1ms."),
        ("trade_bar_-5ticks", "invalid interval: -5, data type: trade_bar_-5ticks."),
        ("trade_bar_1e999vol", "invalid interval: inf, data type: trade_bar_1e999vol."),
    ],
)
def test_number_out_of_bounds_is_refused(name: str, text: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_computed(name)
    assert str(caught.value).startswith(text)


def test_bounds_hold_for_specs_made_by_callers() -> None:
    assert BookSnapshotSpec(10_000, 0).depth == 10_000
    with pytest.raises(RequestError, match="integer up to 10000"):
        BookSnapshotSpec(10_001, 0)


def test_spec_without_a_name_gets_the_usual_one() -> None:
    assert TradeBarSpec("volume", 1.5).name == "trade_bar_1.5vol"
    assert BookSnapshotSpec(5, 100, 0.5).name == "book_snapshot_5_grouped0.5_100ms"


def test_needed_mappers_come_in_mapper_order_and_once() -> None:
    names = ["quote_1s", "trade_bar_1s", "liquidation", "book_snapshot_5_1s", "disconnect", "trade"]
    assert source_types(names) == ("trade", "book_change", "liquidation")


def test_computed_specs_keep_the_order_of_the_request() -> None:
    specs = computed_specs(["trade", "quote", "trade_bar_1s"])
    assert [spec.name for spec in specs] == ["quote", "trade_bar_1s"]


@pytest.mark.parametrize(
    ("name", "record_type"),
    [("trade_bar_1s", "trade_bar"), ("quote", "book_snapshot"), ("trade", "trade")],
)
def test_requested_name_tells_the_type_of_its_records(name: str, record_type: str) -> None:
    assert output_type(name) == record_type


def test_unknown_name_is_refused_with_the_nearest() -> None:
    check_data_types(["trade", "quote_1s", "disconnect"])
    with pytest.raises(UnknownNameError, match=r"Unknown data type 'trades'. Did you mean 'trade'"):
        check_data_types(["trades"])
