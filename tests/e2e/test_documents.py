"""Every code block of the documents runs, unless its info string says why it cannot.

Blocks of one document run in order, in one folder. `sh background` starts a server that the
following blocks talk to. The ports that a document names are replaced by free ones.

Spark starts once for all of them, in the tour of `make demo`. `step of the demo` is a command that
the tour has to run as it stands there, and `after the demo` are blocks that run on what it leaves.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.servers.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
INTERPRETERS = {"sh": ["bash", "-euc"], "python": [sys.executable, "-c"]}
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")
PORT = re.compile(
    r"(?<=port[ =])\d{4,5}\b|(?<=port = )\d{4,5}\b|(?<=--serve )\d{4,5}\b|"
    r"(?<=127\.0\.0\.1:)\d{4,5}\b"
)
LAST_START_LINE = "See "
STEP_OF_THE_DEMO, AFTER_THE_DEMO = "step of the demo", "after the demo"
ELSEWHERE = ("no-run", STEP_OF_THE_DEMO, AFTER_THE_DEMO)
TREATMENT = re.compile(rf"|background|no-run: .+|{STEP_OF_THE_DEMO}|{AFTER_THE_DEMO}")
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, how to treat it, its text."""

    language: str
    treatment: str
    text: str

    @property
    def is_run(self) -> bool:
        return self.language in INTERPRETERS and not self.treatment.startswith(ELSEWHERE)


def blocks_of(document: Path) -> list[Block]:
    found = BLOCK.findall(document.read_text())
    return [Block(*info.partition(" ")[::2], text) for info, text in found]


def on_free_ports(blocks: list[Block]) -> list[Block]:
    """Replace every port, and keep a WebSocket port next to its HTTP port."""
    free: dict[int, int] = {}
    for port in sorted({int(port) for block in blocks for port in PORT.findall(block.text)}):
        free[port] = free[port - 1] + 1 if port - 1 in free else free_ports()
    return [
        replace(block, text=PORT.sub(lambda found: str(free[int(found[0])]), block.text))
        for block in blocks
    ]


def has_code(document: Path) -> bool:
    return any(block.is_run for block in blocks_of(document))


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def own_environ() -> dict[str, str]:
    """Return an environment with our commands and without settings."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TM_")}
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    return environ


@contextmanager
def running(block: Block, cwd: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Run a server block while the blocks after it run."""
    # `exec`, so that the signal reaches the server and not only its shell.
    command = [*INTERPRETERS[block.language], f"exec {block.text}"]
    with subprocess.Popen(
        command, cwd=cwd, env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert any(line.startswith(LAST_START_LINE) for line in process.stdout), block.text
            yield
        finally:
            process.terminate()
            process.wait(TIMEOUT_SECONDS)


def run(block: Block, cwd: Path, environ: Mapping[str, str]) -> None:
    result = subprocess.run(
        [*INTERPRETERS[block.language], block.text],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{block.text}\n{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize("document", [*filter(has_code, DOCUMENTS)], ids=name_of)
def test_code_blocks_run(document: Path, tmp_path: Path) -> None:
    environ = own_environ()
    blocks = on_free_ports([block for block in blocks_of(document) if block.is_run])
    with ExitStack() as servers:
        for block in blocks:
            if block.treatment == "background":
                servers.enter_context(running(block, tmp_path, environ))
            else:
                run(block, tmp_path, environ)


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_block_names_its_language_and_why_it_is_not_run(document: Path) -> None:
    for block in blocks_of(document):
        assert block.language, block.text
        assert TREATMENT.fullmatch(block.treatment), block.treatment


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), target
