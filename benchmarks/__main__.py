"""Run benchmarks, each in a process of its own: `python -m benchmarks [--write] [name ...]`.

With `--write`, what they print is kept in docs/performance.md, between `<!-- benchmark: name -->`
and `<!-- end -->`.
"""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "performance.md"


def main() -> None:
    words = sys.argv[1:]
    chosen = [word for word in words if word != "--write"]
    for name in chosen or names():
        print(f"\n{name}: {machine()}\n", flush=True)
        lines = [machine(), "", *measured(name)]
        if "--write" in words:
            text = "\n".join(lines).rstrip()
            DOCUMENT.write_text(with_section(DOCUMENT.read_text(), name, text))


def names() -> list[str]:
    """Return the modules that measure something, which are those with a `main`."""
    modules = sorted((ROOT / "benchmarks").glob("[!_]*.py"))
    return [path.stem for path in modules if "\ndef main(" in path.read_text()]


def measured(name: str) -> list[str]:
    """Run a benchmark, show what it prints as it comes, and return the lines."""
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    lines = []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        sys.exit(f"benchmark {name} failed")
    return lines


def machine() -> str:
    """Say what the figures are measured on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"CPython {platform.python_version()}, {platform.machine()}, {cores} cores"


def with_section(text: str, name: str, output: str) -> str:
    """Return the document with the section of a benchmark replaced, or added at its end."""
    section = f"<!-- benchmark: {name} -->\n\n```text\n{output}\n```\n\n<!-- end -->"
    pattern = re.compile(rf"<!-- benchmark: {re.escape(name)} -->.*?<!-- end -->", re.DOTALL)
    if pattern.search(text):
        return pattern.sub(lambda _: section, text)
    return f"{text.rstrip()}\n\n## {name.capitalize()}\n\n{section}\n"


if __name__ == "__main__":
    main()
