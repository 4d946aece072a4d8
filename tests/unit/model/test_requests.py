from typing import Any

import msgspec
import pytest

from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import (
    Filter,
    NormalizedReplayRequest,
    StreamRequest,
    check_exchange,
    check_filters,
    check_range,
)
from tardis_machine.model.time import us_text


def refusal(check: Any, *arguments: Any) -> str:
    with pytest.raises(RequestError) as caught:
        check(*arguments)
    return str(caught.value)


def test_request_is_decoded_under_the_names_of_the_api() -> None:
    raw = b'{"exchange":"bitmex","symbols":["XBTUSD"],"from":"2019-06-01","to":"2019-06-02",'
    raw += b'"dataTypes":["trade"],"withDisconnectMessages":true,"unknown":1}'
    request = msgspec.json.decode(raw, type=NormalizedReplayRequest)
    assert (request.start, request.end, request.data_types) == (
        "2019-06-01",
        "2019-06-02",
        ["trade"],
    )
    assert request.with_disconnect_messages is True


def test_stream_request_reads_its_timeout() -> None:
    request = msgspec.json.decode(b'{"timeoutIntervalMS":5}', type=StreamRequest)
    assert request.timeout_interval_ms == 5


def test_unknown_exchange_is_refused_with_all_ids() -> None:
    assert check_exchange("bitmex", ["bitmex", "okex"]) == "bitmex"
    assert refusal(check_exchange, "bitmax", ["bitmex", "okex"]) == (
        'Invalid "exchange" argument: bitmax. '
        "Please provide one of the following exchanges: bitmex, okex."
    )
    assert "argument: undefined." in refusal(check_exchange, None, ["bitmex"])


def test_range_is_cut_to_whole_minutes() -> None:
    checked = check_range("2019-06-01T00:01:59", "2019-06-01T00:03:30")
    assert us_text(checked.start_us).startswith("2019-06-01T00:01:00")
    assert us_text(checked.end_us).startswith("2019-06-01T00:03:00")


def test_exact_range_keeps_its_seconds() -> None:
    checked = check_range("2019-06-01T00:01:01", "2019-06-01T00:01:02.5", is_exact=True)
    assert checked.end_us - checked.start_us == 1_500_000


@pytest.mark.parametrize(
    ("start", "end", "name", "shown"),
    [
        ("x", "2019-06-01", "from", "x"),
        (None, "2019-06-01", "from", "undefined"),
        ("2019-06-01", 5, "to", "5"),
        ("2019-06-01", True, "to", "true"),
    ],
)
def test_bad_date_is_refused_by_name(start: Any, end: Any, name: str, shown: str) -> None:
    assert refusal(check_range, start, end) == (
        f'Invalid "{name}" argument: {shown}. Please provide valid date string.'
    )


def test_range_that_ends_before_it_starts_is_refused() -> None:
    text = refusal(check_range, "2019-06-02", "2019-06-01")
    assert text.startswith('Invalid "to" and "from" arguments combination.')


def test_empty_range_is_allowed() -> None:
    checked = check_range("2019-06-01", "2019-06-01T00:00:30")
    assert checked.start_us == checked.end_us


def test_filters_are_kept_in_order() -> None:
    given = [{"channel": "trade", "symbols": ["XBTUSD"]}, {"channel": "funding"}]
    assert check_filters(given, ["trade", "funding"]) == (
        Filter("trade", ("XBTUSD",)),
        Filter("funding"),
    )
    assert check_filters(None, ["trade"]) == ()


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"channel": "trade"}, 'Invalid "filters" argument'),
        ([{"channel": "trades"}], 'Invalid "filters[].channel" argument: trades.'),
        ([{}], 'Invalid "filters[].channel" argument: undefined.'),
        (["trade"], 'Invalid "filters[].channel" argument: undefined.'),
        ([{"channel": "trade", "symbols": "X"}], 'Invalid "filters[].symbols" argument: X.'),
    ],
)
def test_bad_filters_are_refused(filters: Any, text: str) -> None:
    assert refusal(check_filters, filters, ["trade"]).startswith(text)


def test_filter_without_channel_is_written_without_one_and_refused() -> None:
    written = msgspec.to_builtins(Filter(symbols=("X",)))
    assert written == {"symbols": ("X",)}
    assert "channel" in refusal(check_filters, [written], ["trade"])
