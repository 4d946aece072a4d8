"""What the exchanges know of themselves, for tests: books, trades, clients."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from tardis_machine.model.errors import RequestError, UnknownNameError
from tardis_machine.model.time import parse_instant, us_text
from tardis_machine.server.exchange.clients import Clients
from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.gateway import Exchange
from tardis_machine.server.exchange.history import BookState
from tardis_machine.server.exchange.markets import LiveMarket
from tardis_machine.server.exchange.player import MarketClock, Player
from tardis_machine.sources.simulator.venues import find_venue

DEFAULT_TRADES = 100


def json_response(value: Any, status: int = 200) -> web.Response:
    """Answer with a value as JSON."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


@web.middleware
async def report_problems(request: web.Request, handler: Any) -> web.StreamResponse:
    """Answer what was wrong with a request."""
    try:
        response: web.StreamResponse = await handler(request)
    except UnknownNameError as error:
        return json_response({"message": str(error)}, status=404)
    except RequestError as error:
        return json_response({"message": str(error)}, status=400)
    return response


class Control:
    """Answers `/status`, `/truth`, `/sent` and `/connections`."""

    def __init__(
        self,
        exchanges: Mapping[str, Exchange],
        clients: Clients,
        clock: MarketClock,
        player: Player,
    ) -> None:
        self._exchanges = exchanges
        self._clients = clients
        self._clock = clock
        self._player = player

    async def status(self, request: web.Request) -> web.Response:
        """Say which exchanges and symbols are played, where, and for how many clients."""
        exchanges = {
            exchange.id: {
                "symbols": list(exchange.markets),
                "webSocketHosts": exchange.protocol.socket_hosts,
                "httpHosts": exchange.protocol.rest_hosts,
                "connections": sum(
                    session.connection.exchange == exchange.id
                    for session in self._clients.sessions.values()
                ),
            }
            for exchange in self._exchanges.values()
        }
        return json_response(
            {
                "time": us_text(self._clock.us()),
                "behindSeconds": round(self._player.behind_seconds, 3),
                "connectionsOpened": self._clients.opened,
                "exchanges": exchanges,
            }
        )

    async def truth(self, request: web.Request) -> web.Response:
        """Tell the book of a symbol: now, at `?seq=N`, or at `?timestamp=T` of the venue."""
        market = self._market(request)
        history = market.book
        oldest, latest = history.oldest, history.latest
        sequence = _whole_number(request, "seq")
        time_us = _instant(request, "timestamp")
        if sequence is not None:
            asked, bounds = sequence, (oldest[0], latest[0])
        elif time_us is not None:
            asked, bounds = time_us, (oldest[1], self._clock.us())
        else:
            asked, bounds = latest[0], (oldest[0], latest[0])
        if not bounds[0] <= asked <= bounds[1]:
            return _not_known(market, is_later=asked > bounds[1])
        state = history.at_sequence(asked) if time_us is None else history.at_time(asked)
        return json_response({**_named(request, market), **_book(market, state), **_kept(market)})

    async def sent(self, request: web.Request) -> web.Response:
        """Tell how many messages a symbol sent per channel, and its latest trades."""
        market = self._market(request)
        wanted = _whole_number(request, "trades")
        count = DEFAULT_TRADES if wanted is None else wanted
        latest = list(market.trades.latest)[-count:] if count else []
        return json_response(
            {
                **_named(request, market),
                "channels": dict(sorted(market.sent.items())),
                "tradeCount": market.trades.count,
                "trades": [
                    {
                        "id": fill.id,
                        "timestamp": us_text(fill.time_us),
                        "price": market.feed.price_text(fill.level),
                        "amount": market.feed.amount_text(fill.lots),
                        "side": "buy" if fill.is_buy else "sell",
                    }
                    for fill in latest
                ],
            }
        )

    async def connections(self, request: web.Request) -> web.Response:
        """Tell what was written to each client, also to the latest that left."""
        here = [session.connection for session in self._clients.sessions.values()]
        return json_response(
            {
                "open": [_connection(connection) for connection in here],
                "left": [_connection(connection) for connection in self._clients.left],
            }
        )

    def _market(self, request: web.Request) -> LiveMarket[Any]:
        name, symbol = request.match_info["exchange"], request.match_info["symbol"]
        exchange = self._exchanges.get(name)
        if exchange is None:
            raise UnknownNameError("exchange", name, tuple(self._exchanges))
        market = exchange.markets.get(find_venue(name).spell(symbol))
        if market is None:
            raise UnknownNameError("symbol", symbol, tuple(exchange.markets))
        return market


def _named(request: web.Request, market: LiveMarket[Any]) -> dict[str, Any]:
    return {"exchange": request.match_info["exchange"], "symbol": market.feed.symbol}


def _book(market: LiveMarket[Any], state: BookState) -> dict[str, Any]:
    price, amount = market.feed.price_text, market.feed.amount_text
    bids = sorted(state.bids.items(), reverse=True)
    return {
        "sequence": state.sequence,
        "timestamp": us_text(state.time_us),
        "bids": [[price(level), amount(lots)] for level, lots in bids],
        "asks": [[price(level), amount(lots)] for level, lots in sorted(state.asks.items())],
    }


def _kept(market: LiveMarket[Any]) -> dict[str, Any]:
    """Say which books are known: what is older is forgotten by --truth-updates."""
    history = market.book
    return {
        "oldest": {"sequence": history.oldest[0], "timestamp": us_text(history.oldest[1])},
        "latest": {"sequence": history.latest[0], "timestamp": us_text(history.latest[1])},
        "truthUpdates": history.limit,
    }


def _not_known(market: LiveMarket[Any], *, is_later: bool) -> web.Response:
    if is_later:
        return json_response({"message": "This has not happened yet.", **_kept(market)}, status=404)
    text = "This is older than what is kept; --truth-updates keeps more."
    return json_response({"message": text, **_kept(market)}, status=410)


def _connection(connection: Connection) -> dict[str, Any]:
    return {
        "connection": connection.number,
        "exchange": connection.exchange,
        "host": connection.address.host,
        "path": connection.address.path,
        "ended": connection.ended,
        "messages": dict(connection.sent),
        "trades": {symbol: trades._asdict() for symbol, trades in connection.trades.items()},
    }


def _whole_number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise RequestError(f"{name} must be a whole number, not {text!r}.")
    return int(text)


def _instant(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    time_us = parse_instant(text)
    if time_us is None:
        raise RequestError(f"{name} must be a time such as 2024-03-01T00:00:00.123Z, not {text!r}.")
    return time_us
