"""Renew requirements.lock: every extra and the development group, hash-pinned, for all platforms.

A pip-style lock is used because it names packages and hashes but no address to fetch them from.
"""

import sys

from bootstrap import BIN, install_uv, run, working_uv

OPTIONS = (
    "--universal",
    "--generate-hashes",
    "--all-extras",
    "--group=dev",
    "--python-version=3.11",
    "--no-header",
    "--no-annotate",
    "--quiet",
)


def main() -> None:
    """Compile pyproject.toml to requirements.lock; `--upgrade` takes newer versions too."""
    uv = working_uv("uv") or working_uv(str(BIN / "uv")) or install_uv()
    run(uv, "pip", "compile", *OPTIONS, *sys.argv[1:], "pyproject.toml", "-o", "requirements.lock")


if __name__ == "__main__":
    main()
