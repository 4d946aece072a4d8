import hashlib
from typing import Any

import pytest

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.keys import (
    DEFAULT_KEY,
    EVENT_HUBS_KEY,
    KINESIS_KEY,
    NAME,
    SUBJECT,
    VERBATIM,
    NameRule,
    compile_template,
)
from tardis_machine.bronze.series import Origin, Series
from tardis_machine.model.errors import SettingsError


def series(**fields: Any) -> Series:
    common: dict[str, Any] = {
        "case": PayloadCase.BOOK_CHANGE,
        "exchange": "bitmex",
        "symbol": "XBTUSD",
        "name": "",
        "source": "host-1",
        "origin": Origin.REPLAY,
        "meta": {"request_id": "r-1"},
    }
    return Series(**(common | fields))


def render(text: str, rule: NameRule = VERBATIM, **fields: Any) -> str:
    return compile_template(text, "kafka-key-template", rule).render(series(**fields))


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (DEFAULT_KEY, "bitmex|XBTUSD|bookChange"),
        ("{{ exchange }}/{{symbol }}", "bitmex/XBTUSD"),
        ("{{dataType}} {{source}} {{origin}}", "book_change host-1 replay"),
        ("{{meta.request_id}}-{{meta.absent}}-{{meta.data_type}}", "r-1--book_change"),
        ("{{{symbol}}}:trades", "{XBTUSD}:trades"),
        ("a {literal} text", "a {literal} text"),
        ("", ""),
    ],
)
def test_placeholders_are_replaced(template: str, text: str) -> None:
    assert render(template) == text


def test_data_type_of_computed_records_is_their_name() -> None:
    fields = {"case": PayloadCase.QUOTE, "name": "quote_10s"}
    assert render("{{dataType}}:{{payloadCase}}", **fields) == "quote_10s:quote"


@pytest.mark.parametrize(
    ("rule", "value", "text"),
    [
        (VERBATIM, ".B X*>", "x..B X*>"),
        (VERBATIM, "", "x."),
        (SUBJECT, ".BXBT", "x._BXBT"),
        (SUBJECT, "a b*c>d\te\x00", "x.a_b_c_d_e_"),
        (SUBJECT, "", "x._"),
        (NAME, "BTC/USD:É", "x.BTC_USD__"),
        (NAME, ".BXBT", "x..BXBT"),
        (KINESIS_KEY, "", "x._"),
        (KINESIS_KEY, "a b", "x.a b"),
        (EVENT_HUBS_KEY, "", "x._"),
    ],
)
def test_values_are_made_safe_for_the_target(rule: NameRule, value: str, text: str) -> None:
    assert render("x.{{symbol}}", rule, symbol=value) == text


def test_literal_text_is_left_alone() -> None:
    assert render("a.*.>.{{symbol}}", SUBJECT, symbol="b") == "a.*.>.b"


@pytest.mark.parametrize("symbol", ["", ".", ".."])
def test_name_without_a_name_becomes_an_underscore(symbol: str) -> None:
    assert render("{{symbol}}", NAME, symbol=symbol) == "_"


@pytest.mark.parametrize(("rule", "limit"), [(KINESIS_KEY, 256), (EVENT_HUBS_KEY, 128)])
def test_long_key_is_cut_and_stays_distinct(rule: NameRule, limit: int) -> None:
    fits, long, longer = "s" * (limit - 2), "s" * (limit - 1), "s" * limit
    assert render("k{{symbol}}|", rule, symbol=fits) == f"k{fits}|"
    cut = render("k{{symbol}}|", rule, symbol=long)
    digest = hashlib.md5(f"k{long}|".encode()).hexdigest()
    assert cut == f"k{'s' * (limit - 34)}#{digest}"
    assert len(cut) == limit
    assert cut != render("k{{symbol}}|", rule, symbol=longer)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (
            "{{foo}}",
            'Unknown kafka-key-template placeholder "{{foo}}". '
            "Valid: exchange, symbol, payloadCase, dataType, source, origin, meta.<key>.",
        ),
        (
            "{{ payload_case }}",
            'Unknown kafka-key-template placeholder "{{payload_case}}". '
            "Did you mean 'payloadCase'? "
            "Valid: exchange, symbol, payloadCase, dataType, source, origin, meta.<key>.",
        ),
        (
            "{{meta.a-b}}",
            'Invalid kafka-key-template meta key "a-b". Expected letters, digits and _.',
        ),
        (
            "{{meta}}",
            'Invalid kafka-key-template meta key "". Expected letters, digits and _.',
        ),
        (
            "x{{symbol",
            'Malformed kafka-key-template: unpaired braces in "x{{symbol". Expected {{name}}.',
        ),
        (
            "symbol}}",
            'Malformed kafka-key-template: unpaired braces in "symbol}}". Expected {{name}}.',
        ),
    ],
)
def test_faulty_template_is_explained(template: str, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        compile_template(template, "kafka-key-template")
    assert str(caught.value) == text


def test_all_faults_of_a_template_are_reported_together() -> None:
    with pytest.raises(SettingsError) as caught:
        compile_template("{{foo}}{{bar}}{{symbol}}{{", "kafka-key-template")
    assert len(caught.value.problems) == 3


def test_template_without_placeholders_is_constant() -> None:
    assert compile_template("bronze.events", "nats-subject").is_constant
    assert not compile_template("bronze.{{symbol}}", "nats-subject").is_constant


def test_template_can_be_filled_with_a_wildcard() -> None:
    template = compile_template("bronze.{{exchange}}.{{symbol}}", "nats-subject-template", SUBJECT)
    assert template.filled("*") == "bronze.*.*"
