"""Stream requests: what is refused at once, and what a plan holds."""

from typing import Any

import pytest

from tardis_machine.model.errors import RequestError
from tardis_machine.model.requests import Filter, StreamRequest
from tardis_machine.session.live.plan import StreamEntry, plan_stream


def plan(environment: dict[str, str] | None = None, **fields: Any) -> StreamEntry:
    fields = {"exchange": "bitmex", "data_types": ["trade"], **fields}
    [entry] = plan_stream([StreamRequest(**fields)], environment or {}).entries
    return entry


def test_plan_holds_filters_and_accepted_symbols() -> None:
    entry = plan(symbols=["xbtusd"], data_types=["trade_bar_1s"])
    assert entry.filters == (Filter("trade", ("XBTUSD",)),)
    assert entry.symbols == {"xbtusd", "XBTUSD"}
    assert entry.requested == ("xbtusd",)
    assert (entry.with_errors, entry.timeout_seconds) == (False, None)


def test_credentials_choose_channels() -> None:
    fields = {"exchange": "okex", "symbols": ["BTC-USDT"], "data_types": ["book_change"]}
    assert plan(**fields).filters[0].channel == "books"
    entry = plan({"OKX_API_KEY": "k"}, **fields)
    assert entry.filters[0].channel == "books50-l2-tbt"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"exchange": "nope"}, "not supported"),
        ({"exchange": "kraken", "data_types": ["liquidation"]}, "not supported"),
        ({"data_types": ["nothing"]}, "without any normalizers"),
        ({"data_types": "trade"}, "dataTypes"),
        ({"symbols": "XBTUSD"}, "symbols"),
        ({"exchange": "binance-jersey"}, "cannot be streamed live"),
        ({"exchange": "poloniex"}, "poloniex has no mappers yet"),
        ({"timeout_interval_ms": "soon"}, "timeoutIntervalMS"),
        ({"timeout_interval_ms": -1}, "timeoutIntervalMS"),
        ({"timeout_interval_ms": True}, "timeoutIntervalMS"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        plan(**fields)


@pytest.mark.parametrize(("given", "seconds"), [(None, None), (0, 0.0), (1500, 1.5)])
def test_timeout_is_explicit_or_not(given: Any, seconds: float | None) -> None:
    assert plan(timeout_interval_ms=given).timeout_seconds == seconds
