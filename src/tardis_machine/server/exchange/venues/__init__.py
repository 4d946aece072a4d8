"""How each venue is reached: its hosts, and who speaks its protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.rest import Rest
from tardis_machine.server.exchange.session import Markets, Session
from tardis_machine.server.exchange.venues.binance import (
    FuturesRest,
    FuturesSession,
    SpotRest,
    SpotSession,
)
from tardis_machine.server.exchange.venues.bitmex import BitmexSession
from tardis_machine.server.exchange.venues.coinbase import CoinbaseSession
from tardis_machine.server.exchange.venues.deribit import DeribitSession
from tardis_machine.server.exchange.venues.kraken import KrakenSession
from tardis_machine.server.exchange.venues.okex import OkexSession


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The live side of one venue."""

    session: type[Session[Any]]
    socket_hosts: tuple[str, ...]
    rest: Callable[[Markets[Any], MarketClock], Rest] | None = None
    rest_hosts: tuple[str, ...] = ()


PROTOCOLS = MappingProxyType(
    {
        "bitmex": Protocol(session=BitmexSession, socket_hosts=("ws.bitmex.com", "www.bitmex.com")),
        "deribit": Protocol(
            session=DeribitSession, socket_hosts=("streams.deribit.com", "www.deribit.com")
        ),
        "coinbase": Protocol(
            session=CoinbaseSession,
            socket_hosts=("ws-feed.exchange.coinbase.com", "ws-direct.exchange.coinbase.com"),
        ),
        "binance-futures": Protocol(
            session=FuturesSession,
            socket_hosts=("fstream.binance.com",),
            rest=FuturesRest,
            rest_hosts=("fapi.binance.com",),
        ),
        "binance": Protocol(
            session=SpotSession,
            socket_hosts=("stream.binance.com", "stream.binance.com:9443"),
            rest=SpotRest,
            rest_hosts=("api.binance.com",),
        ),
        "okex-swap": Protocol(session=OkexSession, socket_hosts=("ws.okx.com:8443", "ws.okx.com")),
        "kraken": Protocol(session=KrakenSession, socket_hosts=("ws.kraken.com",)),
    }
)
"""Exchange id -> its protocol."""
