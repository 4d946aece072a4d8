"""How metrics are declared: each with its description, by area."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Loaded when a metric is first made: most commands make none.
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

NAMESPACE = "tardis_machine"
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
RECORDS_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
MAX_TARGET_LABELS = 200


@dataclass(frozen=True)
class MetricInfo:
    """Description of a metric, for docs/metrics.md."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


class Declarations:
    """Creates the metrics of one area on one registry and keeps their descriptions."""

    def __init__(self, registry: "CollectorRegistry", infos: list[MetricInfo], area: str) -> None:
        self.registry = registry
        self._infos = infos
        self._prefix = f"{NAMESPACE}_{area}"

    def counter(self, name: str, help: str, *labels: str) -> "Counter":
        """Declare a counter."""
        from prometheus_client import Counter

        return Counter(
            self._note(name, "counter", labels, help), help, labels, registry=self.registry
        )

    def gauge(self, name: str, help: str, *labels: str) -> "Gauge":
        """Declare a gauge."""
        from prometheus_client import Gauge

        return Gauge(self._note(name, "gauge", labels, help), help, labels, registry=self.registry)

    def histogram(
        self, name: str, help: str, *labels: str, buckets: Sequence[float] = SECONDS_BUCKETS
    ) -> "Histogram":
        """Declare a histogram."""
        from prometheus_client import Histogram

        full = self._note(name, "histogram", labels, help)
        return Histogram(full, help, labels, registry=self.registry, buckets=buckets)

    def _note(self, name: str, kind: str, labels: tuple[str, ...], help: str) -> str:
        full = f"{self._prefix}_{name}"
        self._infos.append(MetricInfo(full, kind, labels, help))
        return full


class BoundedLabel:
    """Limits the cardinality of a label: values after the first `limit` become `other`."""

    def __init__(self, limit: int = MAX_TARGET_LABELS) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def value(self, text: str) -> str:
        """Return the label value to use for a text."""
        if text not in self._seen:
            if len(self._seen) >= self._limit:
                return "other"
            self._seen.add(text)
        return text
