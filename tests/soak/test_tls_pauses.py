"""Clients over TLS that pause near the end of a response: longer than TLS waits for its end."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from tardis_machine.sources.simulator import SimulatorSettings, simulate
from tests.servers.ports import free_ports
from tests.servers.tls import make_certificates
from tests.soak.stalled import MINUTES, OPTIONS

PAUSE_SECONDS = 40
UNREAD_BYTES = range(2_400_000, 6_000_000, 300_000)
"""Some of these are more than the kernel buffers, and less than kernel and server together."""

REQUEST = (
    f"GET /replay-normalized?options={quote(json.dumps(OPTIONS))} HTTP/1.1\r\n"
    "Host: localhost\r\nConnection: close\r\n\r\n"
).encode()
END = b"\r\n0\r\n\r\n"


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """Run a server over simulated data that speaks TLS; yield its port."""
    made = make_certificates(folder)
    cache, port = folder / "cache", free_ports()
    simulate(SimulatorSettings(out=cache, minutes=MINUTES, seed=7, exchanges=("bitmex",), rate=200))
    command = [sys.executable, "-m", "tardis_machine", "--port", str(port), "--offline"]
    command += ["--cache-dir", str(cache), "--tls-cert", str(made.cert)]
    command += ["--tls-key", str(made.key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert any(line.startswith(b"WS port") for line in server.stdout)
        try:
            yield port
        finally:
            server.terminate()


async def fetch(port: int, trusting: ssl.SSLContext, pause_at: int | None = None) -> bytes:
    """Ask for a replay and read it, with a pause; return the end of it."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    peer.setblocking(False)
    await asyncio.get_running_loop().sock_connect(peer, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(
        sock=peer, ssl=trusting, server_hostname="localhost", limit=4096
    )
    writer.write(REQUEST)
    got, end = 0, b""
    while data := await reader.read(1 << 16):
        got, end = got + len(data), (end + data)[-len(END) :]
        if pause_at is not None and got >= pause_at:
            await asyncio.sleep(PAUSE_SECONDS)
            pause_at = None
    writer.close()
    return end if pause_at is None else got.to_bytes(8)


@pytest.mark.soak
async def test_client_that_pauses_near_the_end_gets_the_whole_response(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        trusting = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        size = int.from_bytes(await fetch(port, trusting, pause_at=1 << 60))
        ends = await asyncio.gather(
            *(fetch(port, trusting, pause_at=size - unread) for unread in UNREAD_BYTES)
        )
    assert ends == [END] * len(UNREAD_BYTES)
