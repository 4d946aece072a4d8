"""What the parent of several workers reads from a request before it passes it on."""

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tardis_machine.server.workers import MAX_HEAD_BYTES, _peek_session

REST = b"Host: x\r\nUpgrade: websocket\r\n\r\n"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection: the client's and the server's."""
    # Over TCP, as clients come; the kernel wakes readers of other sockets differently.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        client.setblocking(False)
        server.setblocking(False)
        yield client, server


Pair = tuple[socket.socket, socket.socket]


def request_line(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\n".encode()


@pytest.mark.parametrize(
    ("target", "session"),
    [
        ("/ws-replay?exchange=bitmex&session=one&to=x", "one"),
        ("/WS-Replay?session=a%20b+c", "a b c"),
        ("http://host:8001/ws-replay?session=one", "one"),
        ("/ws-replay?session=", None),
        ("/ws-replay?exchange=bitmex", None),
        ("/ws-replay/?session=one", None),
        ("/ws-replay-normalized?session=one", None),
        ("/ws-replay?session=one&session=two", "one"),
        ("/ws-replay?session=%FF", "\ufffd"),
        ("/", None),
    ],
)
async def test_session_is_read_and_the_request_left_in_place(
    pair: Pair, target: str, session: str | None
) -> None:
    client, server = pair
    client.send(request_line(target) + REST)
    assert await _peek_session(server) == session
    assert server.recv(4096) == request_line(target) + REST


async def test_request_line_in_pieces_is_waited_for(pair: Pair) -> None:
    client, server = pair
    peeking = asyncio.create_task(_peek_session(server))
    for piece in (b"GET /ws-re", b"play?sess", b"ion=one HTTP/1.1", b"\r", b"\nHost: x\r\n"):
        await asyncio.sleep(0.01)
        assert not peeking.done()
        client.send(piece)
    assert await asyncio.wait_for(peeking, 120) == "one"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\r\n",
        b"GET\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n",
        b"\xff\xfe \xff\xfe\r\n",
        b"GET //[ HTTP/1.1\r\n",
        b"GET http://[::1/ws-replay?session=x HTTP/1.1\r\n",
        b"GET " + b"x" * MAX_HEAD_BYTES,
    ],
)
async def test_garbage_is_passed_on_without_a_session(garbage: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as client:
        client.sendall(garbage)
        server, _ = listener.accept()
        with server:
            found = await asyncio.wait_for(_peek_session(server), 120)
    assert found is None


@pytest.mark.parametrize("head", [b"", b"GET /ws-replay?session=one"])
async def test_slow_head_is_waited_for_only_so_long(pair: Pair, head: bytes) -> None:
    client, server = pair
    client.send(head)
    assert await asyncio.wait_for(_peek_session(server, 0.05), 120) is None


@pytest.mark.parametrize("head", [b"", b"GET /ws-replay?session=one"])
async def test_client_that_leaves_early_has_no_session(pair: Pair, head: bytes) -> None:
    client, server = pair
    client.send(head)
    client.close()
    assert await asyncio.wait_for(_peek_session(server, 0.05), 120) is None
