import pytest

from tardis_machine.bronze.cases import PayloadCase, case_of, find_case, parse_cases
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.records import BookSnapshot, Trade

TIME = "2024-03-01T00:00:00.000Z"


def snapshot(name: str, **fields: float) -> BookSnapshot:
    return BookSnapshot(
        symbol="XBTUSD",
        exchange="bitmex",
        name=name,
        depth=0,
        interval=0,
        bids=[],
        asks=[],
        timestamp=TIME,
        local_timestamp=TIME,
        **fields,
    )


@pytest.mark.parametrize(
    ("record", "case"),
    [
        (snapshot("book_snapshot_5_100ms"), PayloadCase.BOOK_SNAPSHOT),
        (snapshot("book_snapshot_5_grouped10_1s", grouping=10), PayloadCase.GROUPED_BOOK_SNAPSHOT),
        (snapshot("book_snapshot_5_grouped0_1s", grouping=0), PayloadCase.GROUPED_BOOK_SNAPSHOT),
        (snapshot("quote"), PayloadCase.QUOTE),
        (snapshot("quote_10s"), PayloadCase.QUOTE),
        (Disconnect(exchange="bitmex", local_timestamp=TIME), PayloadCase.DISCONNECT),
        (
            FeedError(
                exchange="bitmex", local_timestamp=TIME, details="x", subsequent_errors_count=1
            ),
            PayloadCase.ERROR,
        ),
    ],
)
def test_record_belongs_to_its_case(record: BookSnapshot, case: PayloadCase) -> None:
    assert case_of(record) is case


@pytest.mark.parametrize("spelling", ["book_change", "bookChange", "BOOK-CHANGE", " book change "])
def test_spelling_of_a_case_does_not_matter(spelling: str) -> None:
    assert find_case(spelling) is PayloadCase.BOOK_CHANGE


def test_camel_name_of_every_case_is_found_again() -> None:
    assert [find_case(case.camel) for case in PayloadCase] == list(PayloadCase)


def test_unknown_cases_are_listed_together_with_valid_and_nearest() -> None:
    with pytest.raises(SettingsError) as caught:
        parse_cases(["trade", "boook_change", "zzz"], "kafka-include-payloads")
    text = str(caught.value)
    assert text.startswith(
        "Unknown payload case(s) for kafka-include-payloads: boook_change, zzz. "
        "Did you mean 'bookChange'? Known cases: trade, bookChange, "
    )
    assert text.endswith("error, disconnect.")


def test_plain_case_has_its_type_as_data_type() -> None:
    assert PayloadCase.TRADE.data_type() == "trade"
    assert PayloadCase.QUOTE.data_type("quote_10s") == "quote_10s"


def test_case_knows_what_its_records_have() -> None:
    assert PayloadCase.TRADE.record_type is Trade
    assert PayloadCase.QUOTE.record_type is BookSnapshot
    assert [case for case in PayloadCase if not case.has_symbol] == [
        PayloadCase.ERROR,
        PayloadCase.DISCONNECT,
    ]
    assert [case for case in PayloadCase if case.is_computed] == [
        PayloadCase.BOOK_SNAPSHOT,
        PayloadCase.GROUPED_BOOK_SNAPSHOT,
        PayloadCase.QUOTE,
        PayloadCase.TRADE_BAR,
    ]
