"""The jars for Delta and Kafka: downloaded once into a cache folder."""

import re
import subprocess
import tempfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from tardis_machine.lake.errors import JarsError
from tardis_machine.lake.settings import SparkSettings
from tardis_machine.model.errors import MissingExtraError

IVY_FILE = Path(__file__).with_name("ivy.xml")
# How Ivy reports a missing dependency: `:: organisation#module;version: not found`.
_UNRESOLVED = re.compile(r"^\s*:: (\S+#\S+;\S+: .+?)(?:\s*::)?\s*$", re.MULTILINE)


def find_jars(settings: SparkSettings, java_home: Path) -> tuple[Path, ...]:
    """Return the jars for these settings; the first call downloads them."""
    if settings.jars == "none":
        return ()
    if settings.jars == "auto":
        return _jars_in(_resolved(settings, java_home))
    folder = Path(settings.jars).expanduser()
    jars = _jars_in(folder)
    if not jars:
        raise JarsError(f"--jars {folder}: no .jar files. Use a folder of jars, auto or none.")
    return jars


def jars_folder(cache_dir: Path) -> Path:
    """Return the cache folder for the jars of this ivy.xml."""
    return cache_dir / f"jars-{sha256(IVY_FILE.read_bytes()).hexdigest()[:12]}"


def spark_home() -> Path:
    """Return the folder of the installed pyspark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "'pyspark' is not installed. Run: pip install 'tardis-machine[lake]'"
        )
    return Path(spec.origin).parent


def _jars_in(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("*.jar")))


def _resolved(settings: SparkSettings, java_home: Path) -> Path:
    target = jars_folder(settings.cache_dir)
    if target.is_dir():
        return target
    settings.cache_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=settings.cache_dir, prefix="jars-") as work:
        _retrieve(Path(work), settings, java_home)
        _publish(Path(work) / "retrieved", target)
    return target


def _retrieve(work: Path, settings: SparkSettings, java_home: Path) -> None:
    """Download everything into `work/retrieved` with Ivy."""
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    command: list[str | Path] = [java_home / "bin" / "java", "-cp", ivy, "org.apache.ivy.Main"]
    if settings.ivy_settings is not None:
        command += ["-settings", settings.ivy_settings]
    command += ["-ivy", IVY_FILE, "-cache", work / "ivy", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{work}/retrieved/[artifact]-[revision].[ext]"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if answer.returncode != 0 or not _jars_in(work / "retrieved"):
        raise JarsError(_explanation(answer.stdout + answer.stderr, settings))


def _explanation(output: str, settings: SparkSettings) -> str:
    missing = _UNRESOLVED.findall(output)
    reason = missing[0] if missing else (output.strip().splitlines() or ["no output"])[-1].strip()
    return (
        f"The jars for Delta and Kafka could not be downloaded ({reason}). They are downloaded "
        f"once, to {jars_folder(settings.cache_dir)}. Without a network, copy that folder from "
        "another machine; to use a mirror, set --ivy-settings; to use jars of your own, set "
        "--jars <folder>; on a cluster that has them, set --jars none."
    )


def _publish(folder: Path, target: Path) -> None:
    """Move the complete folder into place; another process may have done so already."""
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise
