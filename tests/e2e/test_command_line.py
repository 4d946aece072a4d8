"""The installed command, as a shell sees it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tardis_machine.version import __version__
from tests.servers.ports import free_ports

COMMAND = str(Path(sys.executable).parent / "tardis-machine")
DEADLINE_SECONDS = 240


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with no settings but the given ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TM_")}
    kept.pop("PORT", None)
    return subprocess.run(
        [COMMAND, *words],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache with one simulated minute."""
    out = tmp_path_factory.mktemp("sample")
    words = ("--out", str(out), "--minutes", "1", "--exchanges", "bitmex", "--rate", "5")
    assert run("simulate", *words).returncode == 0
    return out


def test_version_and_module_entry_agree() -> None:
    module = subprocess.run(
        [sys.executable, "-m", "tardis_machine", "-v"], capture_output=True, text=True, check=True
    )
    assert run("--version").stdout == module.stdout == f"{__version__}\n"


def test_unknown_option_exits_with_2_and_says_so_on_standard_error() -> None:
    result = run("--prot", "1")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "Unknown option '--prot'. Did you mean '--port'?\n"


@pytest.mark.parametrize(
    ("words", "environ", "shown"),
    [
        (["--port", "0"], {}, "0"),
        (["--port", "65535"], {}, "65535"),
        (["--port", "1.5"], {}, "1.5"),
        (["--port", ""], {}, "0"),
        (["--port", "web"], {}, "NaN"),
        ([], {"TM_PORT": "web"}, "NaN"),
        (["--port", "8000"], {"PORT": "70000"}, "70000"),
    ],
)
def test_bad_port_is_refused_before_anything_starts(
    words: list[str], environ: dict[str, str], shown: str
) -> None:
    result = run(*words, **environ)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Invalid HTTP port: {shown}.")
    assert "from 1 to 65534" in result.stderr


def accept_interrupts() -> None:
    """Undo what a shell does to its background jobs, which then ignore interrupts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_interrupt_ends_a_command_without_a_traceback(tmp_path: Path) -> None:
    words = [COMMAND, "simulate", "--out", str(tmp_path), "--minutes", "1000000"]
    with subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=accept_interrupts,  # noqa: PLW1509
    ) as process:
        while not any(path.is_file() for path in tmp_path.rglob("*")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, errors) == (1, "Interrupted.\n")


def test_reader_that_leaves_a_pipe_early_causes_no_noise(sample: Path) -> None:
    slices = " ".join(str(path) for path in sample.rglob("*") if path.is_file())
    line = f"{COMMAND} normalize --exchange bitmex --data-types trade,book_change {slices} | true"
    result = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert result.stderr == ""


def test_server_prints_its_lines_serves_and_stops_on_a_signal(sample: Path) -> None:
    port = free_ports()
    words = [COMMAND, "--offline", "--cache-dir", str(sample), "--port", str(port)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            lines = [server.stdout.readline() for _ in range(4)]
            options = {
                "exchange": "bitmex",
                "from": "2024-03-01",
                "to": "2024-03-01T00:01",
                "dataTypes": ["trade"],
            }
            url = f"http://127.0.0.1:{port}/replay-normalized?options={quote(json.dumps(options))}"
            with urlopen(url, timeout=DEADLINE_SECONDS) as response:
                records = [json.loads(line) for line in response]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(DEADLINE_SECONDS)
    assert lines[:3] == [
        f"tardis-machine server v{__version__} is running \n",
        f"HTTP port: {port}\n",
        f"WS port: {port + 1}\n",
    ]
    assert {record["type"] for record in records} == {"trade"}
    assert server.returncode == 0


def test_simulated_exchanges_are_served_until_a_signal() -> None:
    words = [COMMAND, "simulate", "--serve", "0", "--exchanges", "bitmex"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            lines = [server.stdout.readline() for _ in range(4)]
            gateway = lines[1].partition(": ")[2].strip()
            with urlopen(f"{gateway}/truth/bitmex/XBTUSD", timeout=DEADLINE_SECONDS) as response:
                book = json.load(response)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(DEADLINE_SECONDS)
        assert server.stderr is not None
        assert (server.returncode, server.stderr.read()) == (0, "")
    assert lines[0] == "Simulated exchanges are running: bitmex\n"
    assert book["bids"]


def test_simulate_into_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    result = run("simulate", "--out", str(file / "cache"), "--minutes", "1")
    assert result.returncode == 1
    assert "cannot be written" in result.stderr
    assert "--out" in result.stderr
    assert "Traceback" not in result.stderr


def test_normalize_to_a_full_disk_says_so(sample: Path) -> None:
    (slice_,) = sample.rglob("*.zst")
    words = ("normalize", "--exchange", "bitmex", "--data-types", "trade,book_change", str(slice_))
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert "cannot be written to standard output: No space left on device" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Exception" not in result.stderr
