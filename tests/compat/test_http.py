"""The HTTP port: routes, bodies and errors as existing clients know them."""

import asyncio
import json

import aiohttp
import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO, trade
from tests.servers.data_api import DataApiStub, Fault

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
NORMALIZED = {**RAW, "dataTypes": ["trade", "book_change"]}


async def test_raw_replay_returns_recorded_bytes_untouched(
    client: Client, data_api: DataApiStub
) -> None:
    line = b'2024-03-01T00:00:05.1234567Z {"table" : "trade", "n":1.0}\n'
    data_api.slices = {("bitmex", "2024-03-01T00:00"): line}
    assert await client.lines("/replay", RAW) == [
        '{"localTimestamp":"2024-03-01T00:00:05.1234567Z","message":{"table" : "trade", "n":1.0}}'
    ]


async def test_raw_replay_shows_each_gap_once_when_asked(client: Client) -> None:
    lines = await client.lines("/replay", {**RAW, "withDisconnects": True})
    assert [bool(line) for line in lines] == [
        *(False, True, True, True, False, True),
        *(False, True, True),
    ]
    assert "" not in await client.lines("/replay", RAW)


async def test_normalized_replay_maps_and_keeps_order(client: Client) -> None:
    records = [json.loads(line) for line in await client.lines("/replay-normalized", NORMALIZED)]
    assert [(record["type"], record["symbol"]) for record in records] == [
        ("book_change", "XBTUSD"),
        ("trade", "XBTUSD"),
        ("book_change", "XBTUSD"),
        ("trade", "XBTUSD"),
        ("book_change", "XBTUSD"),
        ("trade", "ETHUSD"),
    ]
    assert records[1] == {
        "type": "trade",
        "symbol": "XBTUSD",
        "exchange": "bitmex",
        "id": "id-00:01.000000",
        "price": 101,
        "amount": 100,
        "side": "buy",
        "timestamp": "2024-03-01T00:00:01.000Z",
        "localTimestamp": "2024-03-01T00:00:01.000000Z",
    }


async def test_post_body_is_accepted_like_the_options_parameter(client: Client) -> None:
    url = client.machine.http_url + "/replay-normalized"
    async with client.session.post(url, json=NORMALIZED) as response:
        body = await response.text()
    assert body.split("\n")[:-1] == await client.lines("/replay-normalized", NORMALIZED)


async def test_disconnects_appear_only_when_asked_for(client: Client) -> None:
    with_gaps = {**NORMALIZED, "withDisconnectMessages": True}
    records = [json.loads(line) for line in await client.lines("/replay-normalized", with_gaps)]
    gaps = [record for record in records if record["type"] == "disconnect"]
    assert gaps == [
        {
            "type": "disconnect",
            "exchange": "bitmex",
            "localTimestamp": f"2024-03-01T00:00:{second}.000000Z",
        }
        for second in ("02", "30")
    ]


async def test_symbols_in_any_case_select_the_venues_symbol(client: Client) -> None:
    lines = await client.lines("/replay-normalized", {**NORMALIZED, "symbols": ["ethusd"]})
    assert [json.loads(line)["symbol"] for line in lines] == ["ETHUSD"]


async def test_exact_range_cuts_inside_minutes(client: Client) -> None:
    exact = {
        **RAW,
        "from": "2024-03-01T00:00:01.5",
        "to": "2024-03-01T00:00:31",
        "exactRange": True,
    }
    assert len(await client.lines("/replay", exact)) == 2
    records = await client.lines("/replay-normalized", {**exact, "dataTypes": ["trade"]})
    assert [json.loads(line)["price"] for line in records] == [102]


async def test_explicit_offset_is_converted_to_utc(client: Client) -> None:
    shifted = {**RAW, "from": "2024-03-01T02:00:00+02:00", "to": "2024-03-01T02:01:00+02:00"}
    assert len(await client.lines("/replay", shifted)) == 4


async def test_trimmed_levels_leave_out_missing_ones(client: Client) -> None:
    options = {**RAW, "dataTypes": ["book_snapshot_3_0ms"]}
    first = json.loads((await client.lines("/replay-normalized", options))[0])
    assert first["bids"] == [{"price": 100, "amount": 5}, {}, {}]
    trimmed = {**options, "trimLevels": True}
    first = json.loads((await client.lines("/replay-normalized", trimmed))[0])
    assert first["bids"] == [{"price": 100, "amount": 5}]


async def test_speed_holds_messages_back(client: Client) -> None:
    minute = {**RAW, "to": "2024-03-01T00:01", "dataTypes": ["trade"]}
    started = asyncio.get_running_loop().time()
    await client.lines("/replay-normalized", {**minute, "speed": 58})
    assert asyncio.get_running_loop().time() - started >= 0.5


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/replay", {**RAW, "exchange": "nope"}, 'Invalid "exchange" argument: nope. Please'),
        ("/replay", [], 'Invalid "exchange" argument: undefined. Please'),
        ("/replay", {**RAW, "from": "x"}, 'Invalid "from" argument: x. Please'),
        ("/replay", {**RAW, "to": None}, 'Invalid "to" argument: undefined. Please'),
        ("/replay", {**RAW, "to": "2024-02-01"}, 'Invalid "to" and "from" arguments combination.'),
        (
            "/replay",
            {**RAW, "filters": [{"channel": "trades"}]},
            'Invalid "filters[].channel" argument: trades. Please provide one of the following',
        ),
        (
            "/replay",
            {**RAW, "filters": [{"channel": "trade", "symbols": "XBTUSD"}]},
            'Invalid "filters[].symbols" argument: XBTUSD. Please provide array of symbol strings',
        ),
        (
            "/replay-normalized",
            {**RAW, "dataTypes": ["option_summary"]},
            "normalizeOptionsSummary: bitmex not supported",
        ),
        (
            "/replay-normalized",
            {**RAW, "dataTypes": ["trade_bar_1h"]},
            "invalid data type: trade_bar_1h",
        ),
        (
            "/replay-normalized",
            {**RAW, "dataTypes": ["trades"]},
            "Can't normalize data without any normalizers provided",
        ),
        ("/replay-normalized", RAW, 'Invalid "dataTypes" argument'),
        ("/replay", {**RAW, "speed": -1}, 'Invalid "speed" argument: -1'),
    ],
)
async def test_bad_request_names_what_is_wrong(
    client: Client, path: str, options: object, message: str
) -> None:
    status, media_type, body = await client.get(path, options)
    assert (status, media_type) == (500, "application/x-json-stream")
    assert json.loads(body)["message"].startswith(message)


async def test_options_that_are_not_json_are_refused(client: Client) -> None:
    status, _, body = await client.get("/replay", "{")
    assert status == 500
    assert "options" in json.loads(body)["message"]
    assert (await client.get("/replay"))[2] == '{"message":"\\"undefined\\" is not valid JSON"}'


async def test_empty_range_and_empty_list_are_empty_successes(client: Client) -> None:
    empty = (200, "application/x-json-stream", "")
    assert await client.get("/replay", {**RAW, "to": FROM}) == empty
    assert await client.get("/replay-normalized", []) == empty


async def test_upstream_refusal_keeps_its_status_and_text(
    client: Client, data_api: DataApiStub
) -> None:
    data_api.faults = [Fault(times=None, status=401, body='{"code":101}')]
    status, _, body = await client.get("/replay", RAW)
    error = json.loads(body)
    assert status == 401
    assert list(error) == ["responseText", "message", "url"]
    assert error["responseText"] == '{"code":101}'
    known = 'HttpError: status code: 401, response text: {"code":101}'
    assert error["message"].startswith(known + ". No API key was given: set --api-key")
    assert "the first day of each month" in error["message"]
    with_key = json.loads((await client.get("/replay", {**RAW, "apiKey": "TD.x"}))[2])
    assert with_key["message"] == known
    assert error["url"].startswith(data_api.endpoint + "/data-feeds/bitmex?")


async def test_failure_after_the_first_byte_appends_an_error_line(
    client: Client, data_api: DataApiStub
) -> None:
    lines = trade("00:01.000000", 1.0) + b"x" * 40 + b"\n"
    data_api.slices = {("bitmex", "2024-03-01T00:00"): lines}
    options = {**RAW, "to": "2024-03-01T00:01", "dataTypes": ["trade"]}
    status, _, body = await client.get("/replay-normalized", options)
    *records, last = body.split("\n")
    assert status == 200
    assert [json.loads(line)["type"] for line in records] == ["trade"]
    assert "message" in json.loads(last)


@pytest.mark.parametrize("path", ["/", "/nope", "/Replay", "/" + "x" * 5000])
async def test_unknown_route_says_what_is_served(client: Client, path: str) -> None:
    status, _, body = await client.get(path)
    message = json.loads(body)["message"]
    assert status == 404
    assert "HTTP: /replay, /replay-normalized, /health-check, /metrics. WebSocket" in message
    assert len(message) < 500


@pytest.mark.parametrize(
    ("method", "path"),
    [("PUT", "/replay"), ("HEAD", "/replay"), ("POST", "/health-check"), ("POST", "/metrics")],
)
async def test_wrong_method_is_refused(client: Client, method: str, path: str) -> None:
    async with client.session.request(method, client.machine.http_url + path) as response:
        assert response.status == 405
        assert "GET" in response.headers["Allow"]
        assert "tardis_machine" not in await response.text()


async def test_trailing_slash_is_ignored(client: Client) -> None:
    assert await client.lines("/replay/", RAW) == await client.lines("/replay", RAW)


async def test_health_check_answers_in_the_known_shape(client: Client) -> None:
    status, media_type, body = await client.get("/health-check")
    health = json.loads(body)
    assert (status, media_type) == (200, "application/json")
    assert list(health)[:4] == ["status", "uptimeHours", "timestampMs", "memoryInfo"]
    assert list(health["memoryInfo"]) == ["rssMB", "heapTotalMB", "heapUsedMB", "externalMB"]


async def test_metrics_count_what_was_sent(client: Client) -> None:
    await client.lines("/replay", RAW)
    _, _, body = await client.get("/metrics")
    assert 'tardis_machine_server_messages_total{exchange="bitmex",route="/replay"} 6.0' in body


def replay_counts(body: str) -> dict[str, float]:
    prefix, label = "tardis_machine_replay_", '_total{exchange="bitmex"} '
    lines = [line.removeprefix(prefix) for line in body.splitlines() if line.startswith(prefix)]
    return {name: float(value) for name, _, value in (line.partition(label) for line in lines)}


async def test_metrics_count_what_a_raw_replay_read(client: Client) -> None:
    for with_disconnects in (False, True):
        await client.lines("/replay", {**RAW, "withDisconnects": with_disconnects})
    _, _, body = await client.get("/metrics")
    assert replay_counts(body)["messages"] == 12
    assert replay_counts(body)["disconnects"] == 6


async def test_metrics_count_what_a_normalized_replay_read_and_produced(client: Client) -> None:
    sent = await client.lines("/replay-normalized", NORMALIZED)
    _, _, body = await client.get("/metrics")
    assert replay_counts(body) == {
        "messages": 6,
        "records": len(sent),
        "disconnects": 2,
        "mapping_errors": 0,
    }


async def test_long_options_are_accepted(client: Client) -> None:
    long = {**NORMALIZED, "comment": "x" * 500_000}
    assert len(await client.lines("/replay-normalized", long)) == 6


async def test_ten_megabytes_of_options_are_refused_and_others_served(client: Client) -> None:
    url = client.machine.http_url + "/replay?options=" + "x" * 10_000_000
    try:
        async with client.session.get(url) as response:
            assert response.status in (400, 431)
    except aiohttp.ClientConnectionError:
        pass
    assert await client.lines("/replay", RAW)


class TestToken:
    """A server that asks its clients for a token."""

    @pytest.fixture
    def server_options(self) -> dict[str, str]:
        return {"token": "letmein"}

    async def test_request_without_token_is_refused(self, client: Client) -> None:
        status, _, body = await client.get("/replay", RAW)
        assert status == 401
        assert "letmein" not in body

    async def test_token_in_header_or_query_is_accepted(self, client: Client) -> None:
        assert await client.lines("/replay?token=letmein", RAW)
        headers = {"Authorization": "Bearer letmein"}
        params = {"options": json.dumps(RAW)}
        url = client.machine.http_url + "/replay"
        async with client.session.get(url, params=params, headers=headers) as response:
            assert response.status == 200
