"""Clients that send without end are read little at once."""

import asyncio

from tardis_machine.server.guards.sockets import READ_BYTES, limit_reading


class Reader(asyncio.Protocol):
    """Notes the size of what it is given at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.is_over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        limit_reading(transport)

    def data_received(self, data: bytes) -> None:
        self.sizes.append(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over.set()


async def test_much_is_taken_in_small_parts() -> None:
    reader = Reader()
    server = await asyncio.get_running_loop().create_server(lambda: reader, "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b" " * 2_000_000)
        writer.close()
        async with asyncio.timeout(120):
            await reader.is_over.wait()
    assert sum(reader.sizes) == 2_000_000
    assert max(reader.sizes) <= READ_BYTES
