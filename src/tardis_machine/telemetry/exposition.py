"""Metrics as text, and the metrics of several processes as one set.

Each process shares its metrics through a file of its own in a common folder. A scrape reads all
files and adds them up, so any process can serve the metrics of all.
"""

import operator
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tardis_machine.telemetry.loggers import get_logger

log = get_logger(__name__)

_SUFFIX = ".prom"
_CREATED = "_created"
_LASTING_TYPES = frozenset({"counter", "histogram", "summary"})

# Everything else is a number of things and adds up.
_NOT_ADDED: dict[str, Callable[[float, float], float]] = {
    "_start_time_seconds": min,
    "_max_fds": min,
    "_timestamp_seconds": max,
    "_oldest_seconds": max,
}


class Families:
    """A finished list of metrics, in the form that the text writer takes."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        return self._families


def expose(families: Iterable[Metric]) -> bytes:
    """Write metrics as text, without the `_created` series."""
    return generate_latest(Families(merge_families([families])))


def merge_families(parts: Iterable[Iterable[Metric]]) -> list[Metric]:
    """Return each metric once, with samples of equal name and labels combined."""
    merged: dict[str, Metric] = {}
    samples: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Sample]] = {}
    for family in (each for part in parts for each in part):
        if family.name.endswith(_CREATED):
            continue
        if family.name not in merged:
            merged[family.name] = Metric(family.name, family.documentation, family.type)
        _add(samples.setdefault(family.name, {}), family)
    for name, family in merged.items():
        family.samples = list(samples[name].values())
    return list(merged.values())


def lasting(families: Iterable[Metric]) -> list[Metric]:
    """Keep what outlives a process: its counts, not its state."""
    return [family for family in families if family.type in _LASTING_TYPES]


def read_families(path: Path) -> list[Metric]:
    """Read metrics from a file; none when there is no such file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return parse_families(text)


def parse_families(text: str) -> list[Metric]:
    """Read metrics from the text of another process."""
    return list(text_string_to_metric_families(text))


def retire(folder: Path, slot: str, *more: Metric) -> None:
    """Keep the counts of a process that has ended, and add to them."""
    path = folder / (slot + _SUFFIX)
    _share(path, merge_families([lasting(read_families(path)), more]))


class SharedRegistry(CollectorRegistry):
    """The metrics of this process, answered together with those of its siblings.

    A slot is a name that a process inherits from the one it replaces, together with its counts, so
    that these never go back. What a process counted after it last shared is lost when it is killed.
    """

    def __init__(self, folder: Path, slot: str) -> None:
        super().__init__()
        self._folder = folder
        self._path = folder / (slot + _SUFFIX)
        self._inherited = lasting(read_families(self._path))

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of all processes."""
        own = self.share()
        siblings = (path for path in self._folder.glob("*" + _SUFFIX) if path != self._path)
        return merge_families([own, *map(read_families, sorted(siblings))])

    def share(self) -> list[Metric]:
        """Let siblings see the metrics of this process as they are now, and return them."""
        own = merge_families([super().collect(), self._inherited])
        _share(self._path, own)
        return own


def _add(
    samples: dict[tuple[str, frozenset[tuple[str, str]]], Sample],
    family: Metric,
) -> None:
    combine = _combination(family.name)
    for sample in family.samples:
        if sample.name.endswith(_CREATED):
            continue
        key = sample.name, frozenset(sample.labels.items())
        known = samples.get(key)
        value = sample.value if known is None else combine(known.value, sample.value)
        samples[key] = Sample(sample.name, sample.labels, value)


def _combination(name: str) -> Callable[[float, float], float]:
    for suffix, combine in _NOT_ADDED.items():
        if name.endswith(suffix):
            return combine
    return operator.add


def _share(path: Path, families: Iterable[Metric]) -> None:
    """Write a file that readers see whole or not at all."""
    unconfirmed = path.with_suffix(".unconfirmed")
    try:
        unconfirmed.write_bytes(expose(families))
        unconfirmed.replace(path)
    except OSError as error:
        # A full disk must not stop a server that may not need it.
        log.warning(
            "metrics file could not be written; other processes do not see these metrics",
            error=str(error),
        )
