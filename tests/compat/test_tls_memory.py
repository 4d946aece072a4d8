"""What a TLS connection costs while it does nothing."""

import asyncio
import ssl
import sys
from pathlib import Path

import psutil

from tests.servers.ports import free_ports
from tests.servers.tls import make_certificates
from tests.soak.test_replay import process

CONNECTIONS = 200
MAX_BYTES_EACH = 200_000
START_SECONDS = 120


async def connect(port: int, trusting: ssl.SSLContext) -> asyncio.StreamWriter:
    """Connect as soon as the server is there."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=trusting, server_hostname="localhost"
                )
            except OSError:
                await asyncio.sleep(0.05)
            else:
                return writer


async def test_tls_connections_hold_little(tmp_path: Path) -> None:
    made, port = make_certificates(tmp_path), free_ports()
    trusting = ssl.create_default_context(cafile=made.ca)
    command = [sys.executable, "-m", "tardis_machine", "--port", str(port), "--offline"]
    command += ["--cache-dir", str(tmp_path / "cache"), "--request-timeout-seconds", "600"]
    command += ["--tls-cert", str(made.cert), "--tls-key", str(made.key)]
    with process(command, tmp_path / "server.log") as server:
        writers = [await connect(port, trusting)]
        memory = psutil.Process(server.pid).memory_info
        before = memory().rss
        writers += [await connect(port, trusting) for _ in range(CONNECTIONS)]
        grown = memory().rss - before
        for writer in writers:
            writer.transport.abort()
    assert grown < CONNECTIONS * MAX_BYTES_EACH
