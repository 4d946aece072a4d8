"""What Phemex sends live."""

from collections.abc import Callable

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def phemex_book(kind: str) -> Callable[[str, int], Message]:
    return lambda symbol, number: {
        "book": {"asks": [], "bids": [[number * 10_000, 1]]},
        "depth": 30,
        "symbol": symbol,
        "timestamp": TIME_MS * 1_000_000,
        "type": kind,
    }


PHEMEX = LiveVenue(
    exchange="phemex",
    symbols=("BTCUSD", "ETHUSD"),
    trade=lambda symbol: (
        {"symbol": symbol, "type": "incremental"}
        | {"trades": [[TIME_MS * 1_000_000, "Buy", 1_005_000, 1]]}
    ),
    snapshot=phemex_book("snapshot"),
    update=lambda symbol, _, number: phemex_book("incremental")(symbol, number),
    error={"error": {"code": 6001, "message": "invalid argument"}, "id": 0, "result": None},
    half=lambda symbol: {"symbol": symbol, "type": "incremental", "trades": [[1]]},
)

VENUES = (PHEMEX,)
