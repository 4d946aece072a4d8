"""Jobs that belong together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def run_until_first_ends(*jobs: Coroutine[Any, Any, None]) -> None:
    """Run jobs side by side until one ends or fails, and stop the others.

    Raises:
        Exception: what a job raised, the first of them in their order.
    """
    tasks = [asyncio.ensure_future(job) for job in jobs]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
