"""What `/metrics` says about the process itself."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tardis_machine.telemetry.declarations import NAMESPACE, Declarations
from tardis_machine.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from prometheus_client import Metric


def watch_process(metrics: Metrics) -> None:
    """Add CPU time, memory, open files and tasks of this process, read when they are asked for."""
    metrics.declare("process", partial(_watch, asyncio.get_running_loop()))


def _watch(loop: asyncio.AbstractEventLoop, declare: Declarations) -> None:
    from prometheus_client import ProcessCollector

    ProcessCollector(registry=declare.registry)
    tasks = declare.gauge("tasks", "Tasks of the event loop that have not ended.")
    tasks.set_function(lambda: len(asyncio.all_tasks(loop)))
    declare.gauge("workers", "Processes that serve requests.").set(1)


def worker_deaths(count: int) -> "Metric":
    """Return the metric that counts worker processes that exited unexpectedly."""
    from prometheus_client.metrics_core import CounterMetricFamily

    return CounterMetricFamily(
        f"{NAMESPACE}_process_worker_deaths", "Worker processes that exited unexpectedly.", count
    )
