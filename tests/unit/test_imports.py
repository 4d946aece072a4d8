"""What importing loads, seen from a fresh interpreter."""

import json
import pkgutil
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import tardis_machine
from tardis_machine.app.publishing.wiring import PROCESS_MODULE
from tardis_machine.lake.arrow import arrow_schema
from tardis_machine.lake.store.few_rows import append_few
from tardis_machine.lake.store.logs import create_empty
from tardis_machine.lake.tables.silver import TRADES
from tests.servers.ports import free_ports

SLOW = {"google.protobuf", "prometheus_client", "rich", "structlog", "tomllib"}
"""Libraries that take 10 to 300 ms to import, and that no command needs before it runs."""

COMMAND = """
import atexit, json, sys
from tardis_machine.cli import main
atexit.register(lambda: print(json.dumps(list(sys.modules))))
sys.exit(main(sys.argv[1:]))
"""
"""Runs a command line, and prints the loaded modules as its last line."""


def loaded_by(module: str) -> set[str]:
    """Return every module that is loaded once this one was imported."""
    script = f"import json, sys, {module}; print(json.dumps(list(sys.modules)))"
    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(finished.stdout))


def loaded_by_command(*words: str, until: str = "") -> set[str]:
    """Return every module that a command has loaded when it ends, or when it prints a line."""
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if until and line.startswith(until):
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    return set(json.loads(line))


def test_version_is_printed_without_settings_and_libraries() -> None:
    loaded = loaded_by_command("--version")
    assert not loaded & {*SLOW, "aiohttp", "asyncio", "msgspec", "ssl"}
    assert "tardis_machine.app.settings.commands" not in loaded


def test_server_is_ready_before_it_loads_what_only_requests_need(tmp_path: Path) -> None:
    loaded = loaded_by_command(
        "serve", "--port", str(free_ports()), "--cache-dir", str(tmp_path), until="See "
    )
    assert "aiohttp.web" in loaded
    assert not loaded & {
        *SLOW,
        "tardis_machine.sources.downloads",
        "tardis_machine.sources.simulator",
    }
    assert not [name for name in loaded if name.startswith("tardis_machine.exchanges.venues.")]


def test_publishing_job_starts_without_http_metrics_and_envelopes() -> None:
    loaded = loaded_by("tardis_machine.cli.publish")
    assert not loaded & {"aiohttp", "google.protobuf", "prometheus_client", "structlog"}


@pytest.mark.parametrize("bus", ["event_hubs", "files", "kinesis", "nats", "redis"])
def test_process_that_plans_batches_of_a_bus_starts_without_pandas(bus: str) -> None:
    # pyarrow imports it for the first array or scalar that is made of Python values.
    loaded = loaded_by(f"tardis_machine.lake.buses.{bus}.reader, tardis_machine.lake.bronze.rows")
    assert not loaded & {"pandas", "prometheus_client", "structlog"}


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = loaded_by("tardis_machine")
    assert {name for name in loaded if name.startswith("tardis_machine")} == {"tardis_machine"}
    assert not loaded & {"aiohttp", "msgspec", "prometheus_client", "structlog", "asyncio"}


def test_importing_the_model_loads_no_network_library() -> None:
    loaded = loaded_by("tardis_machine.model.records, tardis_machine.model.requests")
    assert not loaded & {"aiohttp", "asyncio", "structlog"}


def test_publisher_process_loads_only_what_it_publishes_with() -> None:
    loaded = loaded_by(PROCESS_MODULE)
    ours = {name for name in loaded if name.startswith("tardis_machine.")}
    packages = {name.split(".")[1] for name in ours}
    assert packages == {"app", "bronze", "buses", "generated", "model", "sinks", "telemetry"}
    assert len(ours) < 120
    assert not loaded & {"aiohttp", "rich", "structlog"}


def test_no_public_name_is_also_a_module() -> None:
    # A module takes its name in the package when it is first imported.
    modules = {module.name for module in pkgutil.iter_modules(tardis_machine.__path__)}
    assert not modules & set(tardis_machine.__all__)


def test_query_is_answered_without_pandas(tmp_path: Path) -> None:
    path = str(tmp_path / "silver" / "trades")
    create_empty(path, TRADES, {})
    row = {"date": date(2024, 3, 1), "price": 1.0}
    rows = pa.Table.from_pylist([row], schema=arrow_schema(TRADES))
    append_few(path, TRADES, rows)
    sql = "select price from silver.trades where date = '2024-03-01'"
    loaded = loaded_by_command("lake", "query", "--lake", str(tmp_path), "--format", "csv", sql)
    assert "duckdb" in loaded
    assert not loaded & {"pandas", "pyspark"}
