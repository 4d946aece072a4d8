"""Ports for the servers of the tests, of which two test processes never get the same one."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import SystemRandom

# Below Linux's default ephemeral range (32768-60999): while a server is down, no outgoing
# connection can take its port, and no client can connect to itself by TCP simultaneous open.
FIRST_PORT, LAST_PORT = 15_000, 32_000
ATTEMPTS = 1000

_claims: list[socket.socket] = []


class NoFreePortError(RuntimeError):
    """Every port that was tried is in use."""

    def __init__(self) -> None:
        super().__init__(f"No free port between {FIRST_PORT} and {LAST_PORT}.")


def free_port() -> int:
    """Return a port on 127.0.0.1 that stays ours until this process ends."""
    return free_ports(1)


def free_ports(count: int = 2) -> int:
    """Return the first of `count` consecutive ports: a server's WebSocket port is the next one."""
    choose = SystemRandom()
    for _ in range(ATTEMPTS):
        first = choose.randint(FIRST_PORT, LAST_PORT - count)
        if all(_is_free(port) and _claim(port) for port in range(first, first + count)):
            return first
    raise NoFreePortError


@contextmanager
def closed_port() -> Iterator[int]:
    """Give a port that refuses connections: bound by us, so that nobody can listen on it."""
    with socket.socket() as held:
        for _ in range(ATTEMPTS):
            try:
                held.bind(("127.0.0.1", free_port()))
            except OSError:
                continue
            yield held.getsockname()[1]
            return
    raise NoFreePortError


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections of an earlier one that linger are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _claim(port: int) -> bool:
    """Keep other test processes from this port also while nobody listens on it."""
    if sys.platform != "linux":
        return True
    # A name without a file, which the kernel forgets with the process. It is seen by the same
    # processes that see our ports.
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0tardis-machine-test-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True
