"""What Gemini sends live."""

from tests.contract.live_venues.venue import TIME_MS, LiveVenue, Message


def gemini_book(symbol: str, number: int) -> Message:
    ids = {"E": TIME_MS * 1_000_000, "s": symbol.lower(), "U": number, "u": number}
    return {"e": "depthUpdate"} | ids | {"b": [[str(number), "1"]], "a": []}


GEMINI = LiveVenue(
    exchange="gemini",
    symbols=("BTCUSD", "ETHUSD"),
    trade=lambda symbol: (
        {"E": TIME_MS * 1_000_000, "s": symbol.lower(), "t": 7}
        | {"p": "100.5", "q": "1", "m": False}
    ),
    snapshot=gemini_book,
    update=lambda symbol, _, number: gemini_book(symbol, number),
    error={"id": 1, "status": 400, "error": {"code": -1121, "msg": "Invalid symbol."}},
    half=lambda symbol: {"E": TIME_MS * 1_000_000, "s": symbol.lower(), "t": 7},
)

VENUES = (GEMINI,)
