"""What Bitfinex sends live."""

from typing import Any

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def bitfinex_number(channel: str, symbol: str) -> int:
    return len(channel) * 1000 + len(symbol) * 100 + ord(symbol[0])


def bitfinex_subscribed(channel: str, symbol: str) -> Message:
    number = bitfinex_number(channel, symbol)
    ack = {"event": "subscribed", "channel": channel, "chanId": number, "pair": symbol}
    return ack | {"prec": "P0", "symbol": f"t{symbol}"}


def bitfinex_array(channel: str, symbol: str, *entries: Any) -> Any:
    return [bitfinex_number(channel, symbol), *entries, 1, TIME_MS]


def bitfinex_venue(exchange: str, *symbols: str) -> LiveVenue:
    first, second = symbols
    return LiveVenue(
        exchange=exchange,
        symbols=(first, second),
        greeting=tuple(
            bitfinex_subscribed(channel, symbol)
            for channel in ("trades", "book")
            for symbol in symbols
        ),
        trade=lambda symbol: bitfinex_array("trades", symbol, "te", [7, TIME_MS, 1, 100.5]),
        snapshot=lambda symbol, number: bitfinex_array("book", symbol, [[number, 1, 1]]),
        update=lambda symbol, _, number: bitfinex_array("book", symbol, [number, 1, 1]),
        error={"event": "error", "msg": "symbol: invalid", "code": 10300},
        half=lambda symbol: bitfinex_array("trades", symbol, "te", [7]),
    )


VENUES = (
    bitfinex_venue("bitfinex", "BTCUSD", "ETHUSD"),
    bitfinex_venue("bitfinex-derivatives", "BTCF0:USTF0", "ETHF0:USTF0"),
)
