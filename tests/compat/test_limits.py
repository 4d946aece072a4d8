"""Requests that ask for too much: a refusal that names the limit, and a server that goes on."""

import json
import re
from typing import Any

import pytest

from tests.compat.conftest import Client
from tests.compat.recorded import FROM, TO

RAW = {"exchange": "bitmex", "from": FROM, "to": TO}
NORMALIZED = {**RAW, "dataTypes": ["trade", "book_change"]}


async def slices_read(client: Client) -> float:
    text = (await client.get("/metrics"))[2]
    found = re.findall(r"tardis_machine_archive_slices_total\{.*\} (\S+)", text)
    return sum(map(float, found))


async def test_equal_entries_are_read_once_and_sent_as_often_as_asked(client: Client) -> None:
    single = await client.lines("/replay-normalized", NORMALIZED)
    before = await slices_read(client)
    other = {**NORMALIZED, "dataTypes": ["quote"]}
    lines = await client.lines("/replay-normalized", [NORMALIZED, other, *[NORMALIZED] * 20])
    assert await slices_read(client) - before == 2 * 2
    without_quotes = [line for line in lines if "book_snapshot" not in line]
    # The entry of the quotes reads the book too.
    book_changes = [line for line in single if '"book_change"' in line]
    assert len(without_quotes) == 21 * len(single) + len(book_changes)
    assert set(without_quotes) == set(single)


class TestSmallLimits:
    """A server that allows little."""

    @pytest.fixture
    def server_options(self) -> dict[str, int]:
        return {
            "max_request_entries": 2,
            "max_request_data_types": 3,
            "max_request_symbols": 4,
            "max_request_levels": 50,
        }

    @pytest.mark.parametrize(
        ("path", "options", "words"),
        [
            ("/replay-normalized", [NORMALIZED] * 3, "3 entries, at most 2"),
            (
                "/replay-normalized",
                {**NORMALIZED, "dataTypes": ["trade"] * 4},
                "4 data types in one entry, at most 3",
            ),
            (
                "/replay-normalized",
                [{**NORMALIZED, "symbols": ["A", "B", "C"]}] * 2,
                "6 symbols, at most 4",
            ),
            (
                "/replay-normalized",
                {**NORMALIZED, "dataTypes": ["book_snapshot_25_1s", "book_snapshot_26_1s"]},
                "51 levels of snapshots, at most 50",
            ),
            (
                "/replay",
                {**RAW, "filters": [{"channel": "trade", "symbols": ["A", "B", "C", "D"]}]},
                "5 symbols, at most 4",
            ),
        ],
    )
    async def test_larger_request_is_refused_by_the_name_of_the_setting(
        self, client: Client, path: str, options: Any, words: str
    ) -> None:
        status, _, body = await client.get(path, options)
        message = json.loads(body)["message"]
        assert status == 413
        assert words in message
        assert re.search("raise --max-request-(entries|data-types|symbols|levels) ", message)

    async def test_websocket_request_is_refused_too(self, client: Client) -> None:
        received = await client.websocket("/ws-replay-normalized", options=[NORMALIZED] * 3)
        assert received.code == 1011
        assert "3 entries, at most 2" in received.reason

    @pytest.mark.parametrize(
        ("changes", "count", "words"),
        [
            ({}, 3, "3 entries, at most 2"),
            ({"dataTypes": ["trade"] * 4}, 1, "4 data types in one entry, at most 3"),
            ({"symbols": ["A", "B", "C"]}, 2, "6 symbols, at most 4"),
            ({"dataTypes": ["book_snapshot_51_1s"]}, 1, "51 levels of snapshots, at most 50"),
        ],
    )
    async def test_live_stream_is_refused_too(
        self, client: Client, changes: dict[str, Any], count: int, words: str
    ) -> None:
        entry = {"exchange": "bitmex", "symbols": ["XBTUSD"], "dataTypes": ["trade"], **changes}
        received = await client.websocket("/ws-stream-normalized", options=[entry] * count)
        assert received.code == 1011
        assert words in received.reason

    async def test_request_at_the_limits_is_served(self, client: Client) -> None:
        options = [
            {**NORMALIZED, "symbols": ["XBTUSD", "ETHUSD"], "dataTypes": ["trade", "quote"]},
            {**NORMALIZED, "symbols": ["XBTUSD", "A"], "dataTypes": ["book_snapshot_49_1s"]},
        ]
        assert await client.lines("/replay-normalized", options)
