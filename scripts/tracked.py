"""Refuse tracked files that name a machine's folders or a package registry's host."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Without their last part, so that this file does not name them either.
REGISTRIES = (
    r"(?:files\.)?python" r"hosted",
    r"py" r"pi",
    r"crates",
    r"registry\.npm" r"js",
    r"repo1?\.mav" r"en",
    r"(?:deb|security)\.deb" r"ian",
    r"proxy\.go" r"lang",
)
# A path of the machine somebody worked on means nothing to the next reader. A registry host in a
# lock or a script would override the mirror that the reader's own tools are set up for.
FORBIDDEN = {
    "a machine path": re.compile(r"(?<![\w.<>{}$~-])/(?:work|root|tmp|home)/[\w.]"),
    "a registry host": re.compile(rf"\b(?:{'|'.join(REGISTRIES)})\.(?:apache\.)?(?:org|io)\b"),
}
UNCHECKED_SUFFIXES = {".binpb", ".png", ".gz", ".zst"}


def main() -> None:
    """Print every offending line and fail when there is one."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in listed.stdout.decode().split("\0") if name]
    problems = [problem for name in names for problem in problems_of(ROOT / name)]
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


def problems_of(path: Path) -> list[str]:
    """Return one line of text per offending line of a file."""
    if not path.is_file() or path.suffix in UNCHECKED_SUFFIXES:
        return []
    lines = enumerate(path.read_text(errors="replace").splitlines(), start=1)
    return [
        f"{path.relative_to(ROOT)}:{number}: {what}: {line.strip()[:100]}"
        for number, line in lines
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]


if __name__ == "__main__":
    main()
