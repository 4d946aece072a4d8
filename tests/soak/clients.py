"""Clients of all manners: those that read to the end, and those that do not."""

import asyncio
import json
import os
import random
import socket
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from tests.soak.wanted import Body, Expected, Identity, Wanted, fetch, fetch_websocket

LONGEST_PAUSE_SECONDS = 5.0
SLOW_BYTES = 1 << 20
"""What a slow reader takes slowly; the rest it takes at once, so that it ends."""


BAD_REQUESTS = (
    ("/replay", "{", 500),
    ("/replay", "{}", 500),
    ("/replay", json.dumps({"exchange": "bitmex", "from": "x", "to": "y"}), 500),
    ("/replay", json.dumps({"exchange": "nope", "from": "2024-03-01", "to": "2024-03-02"}), 500),
    ("/replay-normalized", json.dumps({"exchange": "bitmex"}), 500),
    ("/nope", "{}", 404),
)


class Clients:
    """Does one random thing after the other against one server."""

    def __init__(self, port: int, cache: Path, expected: Expected, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.bytes_checked = 0
        self._port = port
        self._cache = cache
        self._expected = expected
        self._random = random.Random(seed)
        self._behaviours: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (6, self.read_http),
            (4, self.read_websocket),
            (2, self.read_native),
            (2, self.read_session),
            (2, self.post),
            (2, self.read_slowly),
            (2, self.leave_before_the_head),
            (3, self.leave_in_the_middle),
            (2, self.leave_a_websocket),
            (1, self.stop_reading),
            (1, self.send_half_a_head),
            (3, self.ask_badly),
            (1, self.open_unknown_websocket),
            (1, self.damage_the_cache),
        ]

    async def run(self, seconds: float) -> None:
        """Act until the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        weights = [weight for weight, _ in self._behaviours]
        # Kept-alive connections would hide how connections end.
        connector = aiohttp.TCPConnector(force_close=True)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as self._session:
            while loop.time() < deadline:
                _, behave = self._random.choices(self._behaviours, weights)[0]
                try:
                    await behave()
                except (AssertionError, aiohttp.ClientError) as error:
                    # The figures of the whole run matter most when something was wrong in it.
                    self.failures.append(f"{behave.__name__}: {error}"[:500])
                self.counts[behave.__name__] += 1

    async def read_http(self) -> None:
        wanted, expected = self._choose("/replay")
        if isinstance(wanted.options, dict) and self._random.random() < 0.2:
            wanted = replace(wanted, options={**wanted.options, "autoCleanup": True})
        self._check(wanted, await fetch(self._session, self._port, wanted), expected)

    async def read_websocket(self) -> None:
        wanted, expected = self._choose("/replay-normalized")
        wanted = replace(wanted, path="/ws-replay-normalized")
        self._check(wanted, await fetch(self._session, self._port, wanted), expected)

    async def read_native(self) -> None:
        wanted, expected = self._choose("/ws-replay")
        self._check(wanted, await fetch(self._session, self._port, wanted), expected)

    async def read_session(self) -> None:
        """Replay two connections together; each must get what it would get alone."""
        members = [self._choose("/ws-replay") for _ in range(2)]
        key = f"session-{self._random.random()}"
        received = await asyncio.gather(
            *(
                fetch_websocket(self._session, self._port + 1, wanted, session=key)
                for wanted, _ in members
            )
        )
        for (wanted, expected), identity in zip(members, received, strict=True):
            self._check(wanted, identity, expected)

    async def post(self) -> None:
        wanted, expected = self._choose("/replay")
        body = Body()
        async with self._session.post(self._url(wanted.path), json=wanted.options) as response:
            assert response.status == 200, await response.text()
            async for chunk in response.content.iter_any():
                body.add(chunk)
        self._check(wanted, body.identity, expected)

    async def read_slowly(self) -> None:
        """Read some of a response in small pieces with pauses, then the rest."""
        wanted, expected = self._choose("/replay")
        body = Body()
        pieces = self._random.randint(5, 50)
        url = self._url(wanted.path)
        async with self._session.get(url, params=wanted.params, read_bufsize=4096) as response:
            async for chunk in response.content.iter_chunked(SLOW_BYTES // pieces):
                body.add(chunk)
                if body.size < SLOW_BYTES:
                    await asyncio.sleep(self._random.random() * LONGEST_PAUSE_SECONDS / pieces)
        self._check(wanted, body.identity, expected)

    async def leave_before_the_head(self) -> None:
        _, writer = await self._start(self._choose("/replay")[0])
        await asyncio.sleep(self._random.random() * 0.05)
        self._leave(writer)

    async def leave_in_the_middle(self) -> None:
        reader, writer = await self._start(self._choose("/replay")[0])
        await reader.read(self._random.randint(1, 300_000))
        self._leave(writer)

    async def leave_a_websocket(self) -> None:
        wanted, _ = self._choose("/replay-normalized")
        reader, writer = await self._start(replace(wanted, path="/ws-replay-normalized"))
        await reader.read(self._random.randint(1, 300_000))
        self._leave(writer)

    async def stop_reading(self) -> None:
        """Ask for much, take nothing, and leave after a while."""
        _, writer = await self._start(self._choose("/replay")[0])
        await asyncio.sleep(self._random.random() * LONGEST_PAUSE_SECONDS)
        self._leave(writer)

    async def send_half_a_head(self) -> None:
        port = self._port + self._random.randint(0, 1)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /replay?options=%7B")
        await asyncio.sleep(self._random.random() * 0.2)
        self._leave(writer)

    async def ask_badly(self) -> None:
        path, options, status = self._random.choice(BAD_REQUESTS)
        async with self._session.get(self._url(path), params={"options": options}) as response:
            await response.read()
            assert response.status == status, path

    async def open_unknown_websocket(self) -> None:
        async with self._session.ws_connect(f"http://127.0.0.1:{self._port + 1}/nope") as socket_:
            await socket_.receive()
            assert socket_.close_code == 1008

    async def damage_the_cache(self) -> None:
        """Cut a cached slice in half, as a disk might; nobody may notice."""
        path = self._random.choice([*self._cache.rglob("*.zst"), None])
        if path is not None:
            with suppress(FileNotFoundError):
                os.truncate(path, path.stat().st_size // 2)

    def _choose(self, prefix: str) -> tuple[Wanted, Identity]:
        entries = [each for each in self._expected if each[0].path.startswith(prefix)]
        return self._random.choice(entries)

    def _check(self, wanted: Wanted, received: Identity, expected: Identity) -> None:
        assert received == expected, f"{wanted}: {received[0]} bytes, expected {expected[0]}"
        self.bytes_checked += received[0]

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    async def _start(self, wanted: Wanted) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Send a request over a bare connection, so that nothing reads unasked."""
        is_websocket = wanted.path.startswith("/ws")
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port + is_websocket, limit=4096
        )
        head: dict[str, Any] = {"Host": "x"}
        if is_websocket:
            head |= {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": 13}
            head["Sec-WebSocket-Key"] = "MTIzNDU2Nzg5MDEyMzQ1Ng=="
        lines = [f"GET {wanted.path}?{urlencode(wanted.params)} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in head.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        return reader, writer

    def _leave(self, writer: asyncio.StreamWriter) -> None:
        """Close in order, or with a reset."""
        if self._random.random() < 0.5:
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        else:
            writer.close()
