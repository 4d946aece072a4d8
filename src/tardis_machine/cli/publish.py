"""`tardis-machine publish`: replays to event buses, without a client."""

import asyncio
import sys
import time

from tardis_machine.app.publishing.job import Work, load_work, open_publishing, run_work
from tardis_machine.app.settings.commands import PublishSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.cli.signals import Endings, exit_code
from tardis_machine.sinks.publisher.client import PublisherClient
from tardis_machine.sinks.publisher.process import BusNotReachedError, PublisherProcess
from tardis_machine.sinks.reporting.status import BusStatus

BAR_WIDTH = 20


def run(settings: PublishSettings) -> int:
    """Publish, and print the final counts of every bus."""
    work = load_work(settings)
    if work.notice:
        print(work.notice, file=sys.stderr)
    try:
        return asyncio.run(_publish(settings, work))
    except BusNotReachedError as error:
        print(error, file=sys.stderr)
        return ExitCode.BUS_NOT_REACHED


async def _publish(settings: PublishSettings, work: Work) -> int:
    endings = Endings()
    started = time.monotonic()
    async with open_publishing(settings) as (process, client):
        endings.hurry(process)
        line = ProgressLine(work, client)
        try:
            is_done = await run_work(work, client, endings.first, line.show)
        finally:
            await work.save()
        line.clear()
    print_report(process, time.monotonic() - started)
    if not is_done:
        job = settings.publish.job
        hint = f" Continue with --job {job}." if job else ""
        print(f"Stopped before the end.{hint}", file=sys.stderr)
        return exit_code(process) or ExitCode.FAILURE
    print_silent(work)
    is_in_vain = any(silent.is_all for silent in work.silent)
    return exit_code(process) or (ExitCode.FAILURE if is_in_vain else ExitCode.OK)


def print_silent(work: Work) -> None:
    """Print which symbols never came."""
    for silent in work.silent:
        text = f"{silent}. Compare the symbols with those of the exchange."
        print(text[0].upper() + text[1:], file=sys.stderr)


class ProgressLine:
    """One line on a terminal: how far, how fast, and how each bus is doing."""

    def __init__(self, work: Work, client: PublisherClient) -> None:
        self._work = work
        self._client = client
        self._is_terminal = sys.stderr.isatty()
        self._last = (time.monotonic(), 0)

    def show(self) -> None:
        """Print the line again."""
        if self._is_terminal:
            print(f"\r\x1b[K{self.text()}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line."""
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def text(self) -> str:
        """Return the line."""
        progress = self._work.progress()
        now, before = time.monotonic(), self._last
        rate = (progress.records - before[1]) / max(0.001, now - before[0])
        self._last = now, progress.records
        parts = [f"{progress.position} {rate:,.0f} events/s"]
        if progress.share is not None:
            filled = round(progress.share * BAR_WIDTH)
            parts.insert(0, f"[{'#' * filled:<{BAR_WIDTH}}] {progress.share:.0%}")
        buses = self._client.status.buses.items()
        return " | ".join([*parts, *(_bus_text(name, status) for name, status in buses)])


def _bus_text(name: str, status: BusStatus) -> str:
    text = f"{name} {status.state}: lag {status.queued:,} ({status.oldest_seconds:.1f} s)"
    if status.totals.retries:
        text += f", {status.totals.retries:,} retries"
    if status.parked:
        text += f", {status.parked:,} parked"
    return text


def print_report(process: PublisherProcess, seconds: float) -> None:
    """Print what became of the events of each bus."""
    if not process.reports:
        print("The publisher process ended without a report. See: tardis-machine bus status")
    for bus, report in process.reports.items():
        totals = report.totals
        rate = totals.published / max(0.001, seconds)
        text = f"{bus}: {totals.published:,} events delivered in {seconds:.1f} s ({rate:,.0f}/s)"
        more = {
            "left on disk": report.left,
            "dead letters": totals.dead,
            "lost": totals.dropped,
        }
        print(", ".join([text, *(f"{count:,} {what}" for what, count in more.items() if count)]))
