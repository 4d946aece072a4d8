"""What Kraken Futures sends live."""

from tests.contract.live_venues.venue import TIME_MS, LiveVenue

CRYPTOFACILITIES = LiveVenue(
    exchange="cryptofacilities",
    symbols=("PI_XBTUSD", "PF_ETHUSD"),
    trade=lambda symbol: (
        {"feed": "trade", "product_id": symbol, "uid": "u", "side": "sell"}
        | {"type": "fill", "seq": 3, "time": TIME_MS, "qty": 1, "price": 100.5}
    ),
    snapshot=lambda symbol, number: (
        {"feed": "book_snapshot", "product_id": symbol, "timestamp": TIME_MS, "seq": number}
        | {"bids": [{"price": number, "qty": 1}], "asks": []}
    ),
    update=lambda symbol, _, number: (
        {"feed": "book", "product_id": symbol, "side": "buy", "seq": number}
        | {"price": number, "qty": 1, "timestamp": TIME_MS}
    ),
    error={"event": "error", "message": "Invalid product id"},
    half=lambda symbol: {"feed": "trade", "product_id": symbol},
    has_numbers=True,
)

VENUES = (CRYPTOFACILITIES,)
