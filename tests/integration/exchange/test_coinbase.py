from typing import Any

import aiohttp
import pytest

from tests.integration.exchange.clients import Gateway, receive, receive_until, running, until

ADDRESS = "ws-feed.exchange.coinbase.com"
LOGIN = {"signature": "s", "key": "k", "passphrase": "p", "timestamp": 1}


async def test_channels_start_with_their_state_and_end() -> None:
    async with running("coinbase") as gateway, gateway.connect(ADDRESS) as socket:
        await socket.send_json(
            {
                "type": "subscribe",
                "product_ids": ["BTC-USD"],
                "channels": ["level2_batch", {"name": "heartbeat", "product_ids": ["ETH-USD"]}],
            }
        )
        answer = await receive(socket)
        assert answer["channels"] == [
            {"name": "level2_batch", "product_ids": ["BTC-USD"], "account_ids": None},
            {"name": "heartbeat", "product_ids": ["ETH-USD"], "account_ids": None},
        ]
        assert (await receive(socket))["type"] == "snapshot"
        await receive_until(socket, type="l2update", product_id="BTC-USD")
        await receive_until(socket, type="heartbeat", product_id="ETH-USD")
        ended = {"type": "unsubscribe", "product_ids": ["BTC-USD"], "channels": ["level2_batch"]}
        await socket.send_json(ended)
        left = await receive_until(socket, type="subscriptions")
        assert [channel["name"] for channel in left["channels"]] == ["heartbeat"]


async def trades_of(gateway: Gateway) -> Any:
    return (await gateway.get("sent/coinbase/BTC-USD"))["trades"]


async def test_matches_start_with_the_last_one() -> None:
    subscribe = {"type": "subscribe", "product_ids": ["BTC-USD"], "channels": ["matches"]}
    async with running("coinbase", speed=5) as gateway:
        await until(lambda: trades_of(gateway))
        async with gateway.connect(ADDRESS) as socket:
            await socket.send_json(subscribe)
            await receive_until(socket, type="subscriptions")
            last = await receive(socket)
            following = await receive_until(socket, type="match")
    assert last["type"] == "last_match"
    assert following["trade_id"] == last["trade_id"] + 1


@pytest.mark.parametrize(
    ("address", "request_", "reason"),
    [
        (ADDRESS, {"channels": ["matches"], "product_ids": ["FOO-USD"]}, "FOO-USD is not a valid"),
        (ADDRESS, {"channels": ["foo"], "product_ids": ["BTC-USD"]}, "foo is not a valid channel"),
        (ADDRESS, {"channels": ["level2"], "product_ids": ["BTC-USD"]}, "authentication"),
        (ADDRESS, {"channels": ["matches"]}, "must be provided"),
        (ADDRESS, {"channels": "matches"}, "must be provided"),
        (
            "ws-direct.exchange.coinbase.com",
            {"channels": ["matches"], "product_ids": ["BTC-USD"]},
            "authentication",
        ),
    ],
)
async def test_subscription_that_is_refused_has_a_reason(
    address: str, request_: dict[str, Any], reason: str
) -> None:
    async with running("coinbase") as gateway, gateway.connect(address) as socket:
        await socket.send_json({"type": "subscribe", **request_})
        answer = await receive(socket)
    assert (answer["type"], answer["message"]) == ("error", "Failed to subscribe")
    assert reason in answer["reason"]


@pytest.mark.parametrize("text", ["{", '{"type":"dance"}'])
async def test_message_that_cannot_be_read_is_an_error(text: str) -> None:
    async with running("coinbase") as gateway, gateway.connect(ADDRESS) as socket:
        await socket.send_str(text)
        assert (await receive(socket))["type"] == "error"


async def test_login_opens_level2() -> None:
    subscribe = {"type": "subscribe", "product_ids": ["BTC-USD"], "channels": ["level2"]}
    async with running("coinbase") as gateway, gateway.connect(ADDRESS) as socket:
        await socket.send_json({**subscribe, **LOGIN})
        await receive_until(socket, type="snapshot")


async def test_client_that_never_subscribes_is_hung_up_on() -> None:
    passed = [0.0]
    async with (
        running("coinbase", monotonic=lambda: passed[0]) as gateway,
        gateway.connect(ADDRESS) as socket,
    ):
        passed[0] = 6.0
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
