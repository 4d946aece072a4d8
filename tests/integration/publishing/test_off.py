"""With publishing off there is no trace of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.servers.ports import free_ports

PROBE = """
import asyncio, json, sys, threading
from pathlib import Path
import aiohttp, psutil
from tardis_machine import TardisMachine

cache, port, flags = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
OPTIONS = {
    "exchange": "bitmex", "symbols": ["XBTUSD"], "from": "2024-03-01", "to": "2024-03-01T00:03",
    "dataTypes": ["trade", "book_change", "book_snapshot_2_1s"],
}

async def main():
    before = {str(path) for path in cache.rglob("*")}
    threads = set(threading.enumerate())
    async with TardisMachine(port=port, cache_dir=cache, offline=True, **flags) as machine:
        async with aiohttp.ClientSession() as session:
            url = machine.http_url + "/replay-normalized"
            async with session.get(url, params={"options": json.dumps(OPTIONS)}) as response:
                body = await response.text()
            async with session.get(machine.http_url + "/health-check") as response:
                health = await response.json()
        children = [child.name() for child in psutil.Process().children(recursive=True)]
        started = [each.name for each in set(threading.enumerate()) - threads]
    new = sorted({str(path) for path in cache.rglob("*")} - before)
    print(json.dumps({
        "body": body, "health": sorted(health), "children": children, "threads": started,
        "files": new, "modules": sorted(sys.modules),
    }))

asyncio.run(main())
"""
CLIENTS = ("confluent_kafka", "redis", "hiredis", "nats", "aiobotocore", "botocore", "azure")


def probe(cache: Path, **flags: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", PROBE, str(cache), str(free_ports()), json.dumps(flags)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_publishing_off_starts_imports_and_writes_nothing(cache: Path, tmp_path: Path) -> None:
    off = probe(cache)
    assert off["children"] == []
    assert not any(name.startswith("bus-") or "spool" in name for name in off["threads"])
    assert off["files"] == []
    assert "eventBus" not in off["health"]
    assert not {name.partition(".")[0] for name in off["modules"]} & set(CLIENTS)
    on = probe(
        cache,
        event_bus={"spool_dir": str(tmp_path / "spool")},
        files={"dir": str(tmp_path / "bus")},
    )
    assert on["children"] != []
    assert "eventBus" in on["health"]
    assert on["body"] == off["body"]
