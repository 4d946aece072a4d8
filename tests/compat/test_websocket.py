"""The WebSocket port: frames, sessions, close codes and reasons."""

import asyncio
import json

import aiohttp
import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import BITMEX, FROM, TO
from tests.servers.data_api import DataApiStub, Fault
from tests.servers.memory import peak_memory_mb

OPTIONS = {"exchange": "bitmex", "from": FROM, "to": TO, "dataTypes": ["trade", "book_change"]}
SUBSCRIBE = {"op": "subscribe", "args": ["trade:XBTUSD"]}
NATIVE = {"exchange": "bitmex", "from": FROM, "to": TO}


async def test_normalized_replay_sends_the_lines_of_http(client: Client) -> None:
    received = await client.websocket("/ws-replay-normalized", options=OPTIONS)
    assert received.messages == await client.lines("/replay-normalized", OPTIONS)
    assert (received.code, received.reason) == (1000, "WS replay-normalized finished")


async def test_paths_ignore_case(client: Client) -> None:
    assert (await client.websocket("/WS-Replay-Normalized", options=OPTIONS)).code == 1000


async def test_unknown_path_is_closed_after_the_handshake(client: Client) -> None:
    received = await client.websocket("/nope")
    assert (received.code, received.reason, received.messages) == (1008, "", [])


async def test_request_without_upgrade_is_refused(client: Client) -> None:
    url = client.machine.ws_url.replace("ws://", "http://") + "/ws-replay"
    async with client.session.get(url) as response:
        assert response.status == 426
        assert "/ws-replay-normalized" in await response.text()


async def test_bad_options_close_with_the_reason(client: Client) -> None:
    bad = {**OPTIONS, "dataTypes": ["trade_bar_1h"]}
    received = await client.websocket("/ws-replay-normalized", options=bad)
    assert (received.code, received.reason) == (1011, "Error: invalid data type: trade_bar_1h")


async def test_hundreds_of_entries_are_accepted(client: Client) -> None:
    entries = [{**OPTIONS, "to": FROM, "symbols": [f"XBTUSD{number}"]} for number in range(1000)]
    assert len(json.dumps(entries)) > 80_000
    received = await client.websocket("/ws-replay-normalized", options=entries)
    assert (received.code, received.messages) == (1000, [])


async def test_upstream_refusal_closes_with_its_text(client: Client, data_api: DataApiStub) -> None:
    data_api.faults = [Fault(times=None, status=401, body="no")]
    received = await client.websocket("/ws-replay-normalized", options=OPTIONS)
    assert received.code == 1011
    text = "Error: HttpError: status code: 401, response text: no. No API key was given"
    assert received.reason.startswith(text)


async def test_offered_protocol_is_echoed(client: Client) -> None:
    url = client.machine.ws_url + "/nope"
    async with client.session.ws_connect(url, protocols=("first", "second")) as socket:
        assert socket.protocol == "first"


async def test_message_above_the_limit_closes_with_1009(client: Client) -> None:
    url = f"{client.machine.ws_url}/ws-replay?exchange=bitmex&from={FROM}&to={TO}"
    async with client.session.ws_connect(url) as socket:
        await socket.send_str("x" * 600_000)
        await socket.receive()
        assert socket.close_code == 1009


async def test_native_replay_sends_only_what_was_subscribed(
    client: Client, data_api: DataApiStub
) -> None:
    received = await client.websocket("/ws-replay", SUBSCRIBE, {"op": "ping"}, "junk", **NATIVE)
    assert (received.code, received.reason) == (1000, "WS replay finished")
    assert data_api.asks[0].filters == [{"channel": "trade", "symbols": ["XBTUSD"]}]
    recorded = b"".join(BITMEX.values()).splitlines()
    assert received.messages == [line[29:].decode() for line in recorded if line]


async def test_native_replay_without_subscription_is_closed(client: Client) -> None:
    query = {**NATIVE, "to": "2024-03-01T00:02:00.000Z"}
    received = await client.websocket("/ws-replay", {"op": "unsubscribe"}, **query)
    assert received.code == 1011
    text = "Error: No subscriptions received for websocket connection " + json.dumps(
        query, separators=(",", ":")
    )
    assert len(text) > 123
    assert received.reason == text[:120]


async def test_native_replay_reads_the_frames_of_a_live_feed(
    client: Client, data_api: DataApiStub
) -> None:
    subscribe = {"id": 1, "method": "orderbook_p.subscribe", "params": ["BTCUSDT", 30]}
    received = await client.websocket("/ws-replay", subscribe, **NATIVE | {"exchange": "phemex"})
    assert received.code == 1000
    assert data_api.asks[0].filters == [{"channel": "orderbook_p", "symbols": ["BTCUSDT"]}]


async def test_native_replay_of_numbered_messages_brings_the_whole_feed(
    client: Client, data_api: DataApiStub
) -> None:
    subscribe = {"event": "subscribe", "channel": "trades", "symbol": "tBTCUSD"}
    received = await client.websocket("/ws-replay", subscribe, **NATIVE | {"exchange": "bitfinex"})
    assert received.code == 1000
    assert not data_api.asks[0].filters


async def test_native_message_without_a_channel_asks_for_nothing(client: Client) -> None:
    ping = {"id": 1, "method": "server.ping", "params": []}
    received = await client.websocket("/ws-replay", ping, **NATIVE | {"exchange": "phemex"})
    assert received.code == 1011
    assert received.reason.startswith("Error: No subscriptions received")


async def test_frames_after_the_start_of_a_native_replay_are_not_kept(
    client: Client, data_api: DataApiStub
) -> None:
    data_api.faults = [Fault(times=None, delay_seconds=4.0)]
    many = json.dumps({"op": "subscribe", "args": [f"trade:X{n}" for n in range(20_000)]})
    url = client.machine.ws_url + "/ws-replay"
    async with client.session.ws_connect(url, params=NATIVE) as socket:
        await socket.send_json(SUBSCRIBE)
        async with asyncio.timeout(240):
            while not data_api.in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        with peak_memory_mb() as growth:
            for _ in range(10):
                await socket.send_str(many)
            await client.get("/health-check")
        assert growth() < 5 * len(many) / 1e6
        assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT
    assert data_api.asks[0].filters == [{"channel": "trade", "symbols": ["XBTUSD"]}]


async def test_subscriptions_beyond_the_limit_are_refused(client: Client) -> None:
    many = [{"op": "subscribe", "args": [f"trade:{k}X{n}" for n in range(6000)]} for k in range(2)]
    received = await client.websocket("/ws-replay", *many, **NATIVE)
    assert received.code == 1011
    assert "symbols, at most 10000 are allowed" in received.reason


async def test_native_replay_of_unknown_exchange_is_closed_at_once(client: Client) -> None:
    received = await client.websocket("/ws-replay", exchange="nope", **{"from": FROM, "to": TO})
    assert received.code == 1011
    assert received.reason.startswith("Error: Exchange nope is not supported via /ws-replay")


async def test_session_members_get_their_own_messages_together(client: Client) -> None:
    ether = {"op": "subscribe", "args": ["trade:ETHUSD"]}
    first, second = await asyncio.gather(
        client.websocket("/ws-replay", SUBSCRIBE, session="one", **NATIVE),
        client.websocket("/ws-replay", ether, session="one", **NATIVE),
    )
    assert first.code == second.code == 1000
    assert len(first.messages) == len(second.messages) == 6


async def test_one_silent_member_fails_the_whole_session(client: Client) -> None:
    first, second = await asyncio.gather(
        client.websocket("/ws-replay", SUBSCRIBE, session="one", **NATIVE),
        client.websocket("/ws-replay", session="one", **NATIVE),
    )
    assert first.code == second.code == 1011


async def test_late_member_is_refused(client: Client, data_api: DataApiStub) -> None:
    data_api.faults = [Fault(times=None, delay_seconds=3.0)]
    first = asyncio.create_task(client.websocket("/ws-replay", SUBSCRIBE, session="s", **NATIVE))
    async with asyncio.timeout(240):
        while not data_api.in_flight:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    late = await client.websocket("/ws-replay", SUBSCRIBE, session="s", **NATIVE)
    assert (late.code, late.reason) == (
        1011,
        "trying to add new WS connection to replay session that already started",
    )
    assert (await first).code == 1000


async def test_session_key_is_free_again_after_the_end(client: Client) -> None:
    for _ in range(2):
        received = await client.websocket("/ws-replay", SUBSCRIBE, session="again", **NATIVE)
        assert received.code == 1000


async def test_session_goes_on_when_its_first_member_leaves(
    client: Client, data_api: DataApiStub
) -> None:
    data_api.faults = [Fault(times=None, delay_seconds=0.5)]
    url = f"{client.machine.ws_url}/ws-replay?exchange=bitmex&from={FROM}&to={TO}&session=x"
    leaver = await client.session.ws_connect(url)
    await leaver.send_str(json.dumps(SUBSCRIBE))
    stays = asyncio.create_task(client.websocket("/ws-replay", SUBSCRIBE, session="x", **NATIVE))
    await asyncio.sleep(0.4)
    await leaver.close()
    assert len((await stays).messages) == 6


class TestHeartbeat:
    """A server that looks for life often."""

    @pytest.fixture
    def server_options(self) -> dict[str, float]:
        return {"heartbeat_seconds": 0.5, "subscribe_seconds": 2.0}

    async def test_silent_peer_is_dropped(self, client: Client) -> None:
        url = f"{client.machine.ws_url}/ws-replay?exchange=bitmex&from={FROM}&to={TO}"
        async with client.session.ws_connect(url, autoping=False) as socket:
            while (await socket.receive()).type is aiohttp.WSMsgType.PING:
                pass
            assert socket.close_code == 1006

    async def test_peer_that_answers_pings_lives(self, client: Client) -> None:
        received = await client.websocket("/ws-replay", SUBSCRIBE, **NATIVE)
        assert received.code == 1000
