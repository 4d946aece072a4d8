"""Clients over TLS that ask for a replay and then read nothing.

`python -m tests.soak.stalled_tls [connections]` prints the figures of a crowd on each port.
"""

import asyncio
import resource
import ssl
import sys
import tempfile
from pathlib import Path

from tests.servers.tls import make_certificates
from tests.soak.stalled import CONNECTIONS, TARGETS, Figures, measure, serving


async def run(folder: Path, connections: int) -> list[Figures]:
    """Measure both ports of a server that speaks TLS."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    made = make_certificates(folder)
    trusting = ssl.create_default_context(cafile=made.ca)
    options = ("--tls-cert", str(made.cert), "--tls-key", str(made.key))
    async with serving(folder, *options, tls=trusting) as (pid, port):
        return [
            await measure(pid, port, connections, upgrade=upgrade, tls=trusting)
            for upgrade in (False, True)
        ]


def main() -> None:
    """Print the figures."""
    connections = int(sys.argv[1]) if len(sys.argv) > 1 else CONNECTIONS
    with tempfile.TemporaryDirectory() as folder:
        for figures in asyncio.run(run(Path(folder), connections)):
            print(figures.report())  # noqa: T201
    print(TARGETS)  # noqa: T201


if __name__ == "__main__":
    main()
