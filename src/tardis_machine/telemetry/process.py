"""What `/metrics` says about the process itself."""

import asyncio

from prometheus_client import Metric, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily

from tardis_machine.telemetry.metrics import NAMESPACE, Declarations, Metrics


def watch_process(metrics: Metrics) -> None:
    """Add CPU time, memory, open files and tasks of this process, read when they are asked for."""
    ProcessCollector(registry=metrics.registry)
    declare = Declarations(metrics.registry, metrics.infos, "process")
    loop = asyncio.get_running_loop()
    tasks = declare.gauge("tasks", "Tasks of the event loop that have not ended.")
    tasks.set_function(lambda: len(asyncio.all_tasks(loop)))
    declare.gauge("workers", "Processes that serve requests.").set(1)


def worker_deaths(count: int) -> Metric:
    """Return the metric that counts worker processes that exited unexpectedly."""
    return CounterMetricFamily(
        f"{NAMESPACE}_process_worker_deaths", "Worker processes that exited unexpectedly.", count
    )
