"""Create `.venv` and install the locked dependencies and this package into it.

Standard library only: this runs with the machine's own python3, before anything is installed.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
BIN = ENVIRONMENT / "bin"
MINIMUM = (3, 11)


def main() -> None:
    """Bring `.venv` in line with requirements.lock and pyproject.toml."""
    if sys.version_info < MINIMUM:
        sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}.")
    uv = working_uv("uv")
    if not (BIN / "python").exists():
        create_environment(with_pip=uv is None)
    uv = uv or working_uv(str(BIN / "uv")) or install_uv()
    install = [uv, "pip", "install", "--quiet", "--python", str(BIN / "python")]
    run(*install, "--require-hashes", "-r", "requirements.lock")
    # The build backend is one of the locked packages, so nothing unlocked is fetched here.
    run(*install, "--no-deps", "--no-build-isolation", "--editable", ".")
    # An install that is up to date builds nothing, though a compiled module may be stale or gone.
    run(str(BIN / "python"), "hatch_build.py")


def working_uv(command: str) -> str | None:
    """Return a uv that starts; a shim on PATH may point at nothing."""
    path = shutil.which(command)
    if path is None or subprocess.run([path, "--version"], capture_output=True).returncode:
        return None
    return path


def create_environment(*, with_pip: bool) -> None:
    """Create the virtual environment, or say which system package is missing."""
    print(f"creating {ENVIRONMENT.name}", flush=True)
    try:
        venv.create(ENVIRONMENT, with_pip=with_pip, clear=True)
    except subprocess.CalledProcessError:
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        sys.exit("This python3 cannot install pip. Install uv, or your system's python3-venv.")


def install_uv() -> str:
    """Install uv into the environment with pip."""
    pip = [str(BIN / "python"), "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True).returncode:
        run(str(BIN / "python"), "-m", "ensurepip")
    run(*pip, "install", "--quiet", "uv")
    return str(BIN / "uv")


def run(*command: str) -> None:
    """Run a command in the project's root and stop when it fails."""
    environment = {**os.environ, "VIRTUAL_ENV": str(ENVIRONMENT)}
    code = subprocess.run(command, cwd=ROOT, env=environment).returncode
    if code:
        sys.exit(f"failed with exit code {code}: {' '.join(command)}")


if __name__ == "__main__":
    main()
