import pytest

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.keys import DEFAULT_KEY, SUBJECT, compile_template
from tardis_machine.bronze.routing import Route, Router, allowed_cases, parse_routing
from tardis_machine.bronze.series import Origin, Series
from tardis_machine.model.errors import SettingsError
from tests.unit.bronze.records import LOCAL_US, book_change, trade

KNOWN = (
    "Known cases: trade, bookChange, bookSnapshot, groupedBookSnapshot, quote, bookTicker, "
    "derivativeTicker, liquidation, optionSummary, tradeBar, error, disconnect."
)


def all_series() -> list[Series]:
    records = [trade(), book_change(), trade(symbol=".BXBT")]
    envelopes = Encoder("host-1", Origin.REPLAY).encode(records, LOCAL_US)
    return [envelope.series for envelope in envelopes]


def destinations(router: Router) -> list[str | None]:
    routes = [router.route(series) for series in all_series()]
    return [route.destination if route else None for route in routes]


def test_base_destination_serves_every_case() -> None:
    assert destinations(Router("bronze")) == ["bronze"] * 3


def test_template_beats_the_base_destination() -> None:
    template = compile_template("bronze.{{symbol}}", "nats-subject-template", SUBJECT)
    router = Router("bronze", template=template)
    assert destinations(router) == ["bronze.XBTUSD", "bronze.XBTUSD", "bronze._BXBT"]


def test_routing_beats_the_template() -> None:
    template = compile_template("bronze.{{symbol}}", "nats-subject-template", SUBJECT)
    routing = parse_routing("trade:t.{{symbol}}", "nats-subject-routing", "subject", SUBJECT)
    router = Router("bronze", template=template, routing=routing)
    assert destinations(router) == ["t.XBTUSD", "bronze.XBTUSD", "t._BXBT"]


def test_cases_outside_the_allow_list_have_no_route() -> None:
    router = Router("bronze", cases={PayloadCase.BOOK_CHANGE})
    assert destinations(router) == [None, "bronze", None]


def test_key_is_rendered_beside_the_destination() -> None:
    router = Router("bronze", key=compile_template(DEFAULT_KEY, "kafka-key-template"))
    assert router.route(all_series()[0]) == Route("bronze", "bitmex|XBTUSD|trade")
    assert Router("bronze").route(all_series()[0]) == Route("bronze", "")


def test_route_of_a_series_is_found_once() -> None:
    router, (series, *_) = Router("bronze"), all_series()
    assert router.route(series) is router.route(series)


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ([], [], set(PayloadCase)),
        (["trade", "BOOK-CHANGE"], [], {PayloadCase.TRADE, PayloadCase.BOOK_CHANGE}),
        ([], ["trade"], set(PayloadCase) - {PayloadCase.TRADE}),
        (["trade"], ["quote"], {PayloadCase.TRADE}),
    ],
)
def test_allow_and_deny_lists_are_combined(
    include: list[str], exclude: list[str], expected: set[PayloadCase]
) -> None:
    assert allowed_cases(include, exclude, "kafka") == expected


def test_case_in_both_lists_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        allowed_cases(["trade", "bookChange"], ["book_change"], "kafka")
    assert str(caught.value) == (
        "kafka-include-payloads and kafka-exclude-payloads both name bookChange."
    )


def test_problems_of_both_lists_are_reported_together() -> None:
    with pytest.raises(SettingsError) as caught:
        allowed_cases(["foo", "bar"], ["quotes"], "kafka")
    assert caught.value.problems == (
        f"Unknown payload case(s) for kafka-include-payloads: foo, bar. {KNOWN}",
        "Unknown payload case(s) for kafka-exclude-payloads: quotes. "
        f"Did you mean 'quote'? {KNOWN}",
    )


@pytest.mark.parametrize(
    "value",
    [
        "trade:t1, book_change : b1",
        '{"trade": "t1", "BOOK-CHANGE": "b1"}',
        '["trade:t1", "bookChange:b1"]',
        {"trade": "t1", "bookChange": "b1"},
    ],
)
def test_routing_is_read_in_every_form(value: str | dict[str, str]) -> None:
    routing = parse_routing(value, "kafka-topic-routing", "topic")
    assert {case: template.filled("") for case, template in routing.items()} == {
        PayloadCase.TRADE: "t1",
        PayloadCase.BOOK_CHANGE: "b1",
    }


def test_destination_may_hold_commas_and_colons_in_json() -> None:
    routing = parse_routing('{"trade": "a:b,c"}', "redis-stream-routing", "stream")
    assert routing[PayloadCase.TRADE].filled("") == "a:b,c"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("x", 'Invalid nats-subject-routing entry "x". Expected payloadCase:subject.'),
        ("trade:", 'Invalid nats-subject-routing entry "trade:". Expected payloadCase:subject.'),
        (":a", 'Invalid nats-subject-routing entry ":a". Expected payloadCase:subject.'),
        (
            "foo:a,bar:b",
            f"Unknown payload case(s) for nats-subject-routing: foo, bar. {KNOWN}",
        ),
        ("", "nats-subject-routing must define at least one mapping."),
        (" , ", "nats-subject-routing must define at least one mapping."),
        ({}, "nats-subject-routing must define at least one mapping."),
        (
            "bookChange:a,book_change:b",
            "Duplicate payload case(s) for nats-subject-routing: bookChange.",
        ),
        (
            "trade:{{foo}}",
            'Unknown nats-subject-routing placeholder "{{foo}}". '
            "Valid: exchange, symbol, payloadCase, dataType, source, origin, meta.<key>.",
        ),
    ],
)
def test_faulty_routing_is_explained(value: str | dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_routing(value, "nats-subject-routing", "subject")
    assert caught.value.problems == (problem,)


@pytest.mark.parametrize("value", ["{trade", '{"trade": 1}', "[1]"])
def test_faulty_json_is_explained(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^o is not a JSON object or list of texts: "):
        parse_routing(value, "o", "topic")


def test_all_problems_of_a_routing_are_reported_together() -> None:
    with pytest.raises(SettingsError) as caught:
        parse_routing("x,foo:a,trade:a,TRADE:{{b}}", "nats-subject-routing", "subject")
    assert len(caught.value.problems) == 4
