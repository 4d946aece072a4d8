"""Every metric, declared once; docs/metrics.md comes from here.

`Metrics` has its own registry, not a global one, so two servers in one process and every test have
their own. Names start with `tardis_machine_` and carry their unit. They are made, and the library
is imported, when the first one is counted or read.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tardis_machine.telemetry.declarations import Declarations, MetricInfo
from tardis_machine.telemetry.event_bus_metrics import EventBusMetrics
from tardis_machine.telemetry.lake_metrics import LakeMetrics
from tardis_machine.telemetry.live_metrics import LiveMetrics
from tardis_machine.telemetry.replay_metrics import ArchiveMetrics, ReplayMetrics, ServerMetrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_T = TypeVar("_T")


class Area:
    """Stands for the metrics of an area until one of them is used."""

    def __init__(self, metrics: "Metrics", name: str) -> None:
        self._metrics = metrics
        self._name = name

    def __getattr__(self, metric: str) -> Any:
        return getattr(self._metrics.areas[self._name], metric)


class Metrics:
    """All metrics of one process, on one registry."""

    def __init__(self, registry: "CollectorRegistry | None" = None) -> None:
        self._registry = registry
        self._infos: list[MetricInfo] = []
        self._declared: dict[str, Callable[[Declarations], object]] = {}
        self.server = self.declare("server", ServerMetrics)
        self.archive = self.declare("archive", ArchiveMetrics)
        self.replay = self.declare("replay", ReplayMetrics)
        self.live = self.declare("live", LiveMetrics)
        self.event_bus = self.declare("event_bus", EventBusMetrics)
        self.lake = self.declare("lake", LakeMetrics)

    def declare(self, area: str, make: Callable[[Declarations], _T]) -> _T:
        """Add an area, whose metrics are made when any metric is first used."""
        self._declared[area] = make
        return cast("_T", Area(self, area))

    @property
    def registry(self) -> "CollectorRegistry":
        """Return the registry, with every metric on it."""
        self.make()
        assert self._registry is not None
        return self._registry

    @property
    def infos(self) -> list[MetricInfo]:
        """Return the description of every metric."""
        self.make()
        return self._infos

    def make(self) -> None:
        """Make every metric now, if that is not done."""
        _ = self.areas

    def values(self) -> Iterator[Any]:
        """Yield what the metrics count with, of every label."""
        for area in vars(self).get("areas", {}).values():
            for metric in getattr(area, "__dict__", {}).values():
                yield from _values(metric)

    @cached_property
    def areas(self) -> dict[str, object]:
        """Return the metrics of each area, made when one of them is first asked for."""
        from prometheus_client import CollectorRegistry

        registry = self._registry = self._registry or CollectorRegistry()
        return {
            area: make(Declarations(registry, self._infos, area))
            for area, make in self._declared.items()
        }


def _values(metric: object) -> Iterator[Any]:
    parts = getattr(metric, "__dict__", {})
    for child in parts.get("_metrics", {}).values():
        yield from _values(child)
    for name in ("_value", "_sum"):
        if hasattr(parts.get(name), "inc"):
            yield parts[name]
    yield from parts.get("_buckets", ())
