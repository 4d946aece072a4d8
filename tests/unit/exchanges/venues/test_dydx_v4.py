"""Rules of dydx-v4 that its golden files do not show."""

import json
from typing import Any

import pytest

from tardis_machine.exchanges.feeds import Access
from tardis_machine.exchanges.venues.dydx_v4 import (
    FORMAT,
    connections,
    read_subscribe,
    read_symbols,
    ticker_filters,
)
from tardis_machine.model.errors import MappingError, RequestError
from tardis_machine.model.requests import Filter
from tests.unit.exchanges.mapping import map_messages

SYMBOLS = tuple(f"A{number:02}-USD" for number in range(40))


def message(kind: str, channel: str, contents: Any) -> dict[str, Any]:
    return {"type": kind, "id": "A-USD", "channel": channel, "contents": contents}


@pytest.mark.parametrize(
    "contents",
    [
        {"trades": [{"id": "1", "price": "x", "size": "1", "side": "BUY"}]},
        {"trades": [{"id": "1", "size": "1", "side": "BUY"}]},
        {},
    ],
)
def test_trade_of_another_shape_is_an_error(contents: Any) -> None:
    with pytest.raises(MappingError, match="dydx-v4"):
        map_messages("dydx-v4", "trade", message("channel_data", "v4_trades", contents))


def test_message_without_contents_says_nothing() -> None:
    names = ["trade", "book_change", "derivative_ticker", "liquidation"]
    for kind in ("subscribed", "channel_data"):
        for channel in ("v4_trades", "v4_orderbook", "v4_markets"):
            assert map_messages("dydx-v4", names, message(kind, channel, None)) == []


def test_refusal_is_no_data_of_the_channel_it_names() -> None:
    refusal = {"type": "error", "message": "no", "channel": "v4_trades", "id": "X"}
    assert FORMAT.tag.read(json.dumps(refusal).encode()) == "error,v4_trades"
    assert map_messages("dydx-v4", "trade", refusal) == []


def test_a_channel_has_few_symbols_per_connection_and_markets_come_once() -> None:
    filters = [*ticker_filters(SYMBOLS), Filter("v4_orderbook", SYMBOLS)]
    first, second = connections(filters, Access())
    assert [len(first.frames), len(second.frames)] == [1 + 2 * 32, 2 * 8]
    assert [entry.channel for entry in second.filters] == ["v4_orderbook", "v4_trades"]
    markets = json.loads(first.frames[0])
    assert markets == {"type": "subscribe", "channel": "v4_markets"}


def test_channel_without_symbols_is_refused() -> None:
    with pytest.raises(RequestError, match="dydx-v4 requires"):
        connections([Filter("v4_trades")], Access())


def test_subscription_without_id_is_the_whole_channel() -> None:
    assert read_subscribe({"type": "subscribe", "channel": "v4_markets"}) == [Filter("v4_markets")]


def test_message_is_about_its_market() -> None:
    assert read_symbols(b'{"type":"channel_data","id":"A-USD"}') == ("A-USD",)
    assert read_symbols(b'{"type":"channel_data","channel":"v4_markets"}') == ()
