"""Processes under measurement: start, CPU seconds, memory, stop."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil


def free_ports() -> int:
    """Return a port that is free now, as the next one is."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except (OSError, OverflowError):
                continue
            return port


def cpu_seconds(pid: int) -> float:
    """Return user and system seconds of a process and of its children, ended ones included."""
    process = psutil.Process(pid)
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(
        each.user + each.system + each.children_user + each.children_system for each in times
    )


def other_seconds() -> float:
    """Return the CPU seconds that the machine spent on anything but this process and its own."""
    machine = psutil.cpu_times()
    return sum(machine) - machine.idle - getattr(machine, "iowait", 0.0) - cpu_seconds(os.getpid())


def rss_mb(pid: int) -> float:
    """Return the largest resident size among a process and its children."""
    process = psutil.Process(pid)
    sizes = [each.memory_info().rss for each in (process, *process.children(recursive=True))]
    return max(sizes) / 1e6


@contextmanager
def running(command: Sequence[str], cwd: Path, **environ: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command while the body runs, then stop it by its process id."""
    process = subprocess.Popen(
        command, cwd=cwd, env=os.environ | environ, stdout=subprocess.PIPE, stderr=sys.stderr
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_healthy(port: int, seconds: float = 30) -> None:
    """Wait for `/health-check` to answer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health-check", timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
