import pytest

from tests.integration.exchange.clients import receive, receive_until, running

ADDRESS = "ws.bitmex.com/realtime"


async def test_topics_start_with_a_partial_and_go_on_until_they_are_ended() -> None:
    async with running("bitmex") as gateway, gateway.connect(ADDRESS) as socket:
        assert "Welcome" in (await receive(socket))["info"]
        request = {"op": "subscribe", "args": ["orderBookL2:XBTUSD", "trade:ETHUSD"]}
        await socket.send_json(request)
        acknowledged = await receive(socket)
        assert acknowledged == {
            "success": True,
            "subscribe": "orderBookL2:XBTUSD",
            "request": request,
        }
        book = await receive_until(socket, table="orderBookL2")
        assert (book["action"], book["filter"]) == ("partial", {"symbol": "XBTUSD"})
        assert (await receive_until(socket, table="trade"))["action"] == "partial"
        await receive_until(socket, table="trade", action="insert")
        await socket.send_json({"op": "unsubscribe", "args": "orderBookL2:XBTUSD"})
        assert (await receive_until(socket, unsubscribe="orderBookL2:XBTUSD"))["success"]
        for _ in range(2):
            assert (await receive(socket))["table"] == "trade"


async def test_bare_table_brings_all_symbols() -> None:
    address = f"{ADDRESS}?subscribe=quote,funding"
    async with running("bitmex") as gateway, gateway.connect(address) as socket:
        await receive_until(socket, success=True, subscribe="quote")
        for symbol in ("XBTUSD", "ETHUSD"):
            partial = await receive_until(socket, table="quote", action="partial")
            assert partial["filter"] == {"symbol": symbol}
        assert (await receive_until(socket, table="funding"))["data"] == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"op":"subscribe","args":["trade:NOPE"]}', "Unknown or expired symbol."),
        ('{"op":"subscribe","args":["foo:XBTUSD"]}', "Unknown table: foo"),
        ('{"op":"unsubscribe","args":["trade"]}', "You are not subscribed to this topic: trade"),
        ('{"op":"dance"}', "Unrecognized request: dance"),
        ("{", "Could not parse message as JSON."),
    ],
)
async def test_request_that_is_refused_has_an_error(text: str, error: str) -> None:
    async with running("bitmex") as gateway, gateway.connect(ADDRESS) as socket:
        await receive(socket)
        await socket.send_str(text)
        answer = await receive(socket)
    assert (answer["status"], answer["error"]) == (400, error)


async def test_second_subscription_of_a_topic_is_refused() -> None:
    async with running("bitmex") as gateway, gateway.connect(ADDRESS) as socket:
        for _ in range(2):
            await socket.send_json({"op": "subscribe", "args": ["trade:XBTUSD"]})
        answer = await receive_until(socket, status=400)
    assert answer["error"] == "You are already subscribed to this topic: trade:XBTUSD"


async def test_plain_ping_has_a_plain_answer() -> None:
    async with running("bitmex") as gateway, gateway.connect(ADDRESS) as socket:
        await receive(socket)
        await socket.send_str("ping")
        assert (await socket.receive()).data == "pong"
        await socket.ping(b"x")
        assert (await socket.receive()).data == b"x"
