"""The records of a request as the lines a client gets, with a copy to the publisher."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from tardis_machine.model.control import FeedError
from tardis_machine.model.ndjson import encode_lines
from tardis_machine.model.records import Record
from tardis_machine.model.time import Clock, us_text
from tardis_machine.session.context import SessionContext
from tardis_machine.session.plan import NormalizedPlan
from tardis_machine.session.run import client_records
from tardis_machine.session.silent_symbols import TellSilent
from tardis_machine.sinks.publisher.client import PublishedStream


async def client_body(
    plan: NormalizedPlan,
    context: SessionContext,
    copy: PublishedStream | None = None,
    on_silent: TellSilent | None = None,
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Yield the number of records of each chunk and their NDJSON.

    With `copy`, the same bytes go to the publisher, and so do disconnects that the client did not
    ask to see and the error that ends the stream. `on_silent` is told which symbols never came.
    """
    if copy is None:
        async with aclosing(client_records(plan, context, on_silent=on_silent)) as chunks:
            async for records in chunks:
                yield _encoded(records)
        return
    try:
        async with aclosing(_copied_body(plan, context, copy, on_silent)) as bodies:
            async for body in bodies:
                yield body
    except Exception as error:
        await copy.publish(encode_lines(control_errors(plan, error, context.clock)))
        raise
    finally:
        copy.close()


def _encoded(records: list[Record]) -> tuple[int, bytes]:
    """Encode records and forget them: who waits for a slow client would hold them all the time."""
    count, body = len(records), encode_lines(records)
    records.clear()
    return count, body


async def _copied_body(
    plan: NormalizedPlan,
    context: SessionContext,
    copy: PublishedStream,
    on_silent: TellSilent | None,
) -> AsyncGenerator[tuple[int, bytes], None]:
    unseen: list[Record] = []
    async with aclosing(client_records(plan, context, unseen.append, on_silent)) as chunks:
        async for records in chunks:
            count, body = _encoded(records)
            await copy.publish(body)
            if unseen:
                await copy.publish(encode_lines(unseen))
                unseen.clear()
            yield count, body
    await copy.publish(encode_lines(unseen))


def control_errors(plan: NormalizedPlan, error: Exception, clock: Clock) -> list[FeedError]:
    """Return the error records of a failed stream, for consumers of the buses."""
    now = us_text(clock())
    details = str(error) or type(error).__name__
    return [
        FeedError(
            exchange=exchange, local_timestamp=now, details=details, subsequent_errors_count=0
        )
        for exchange in sorted(plan.exchanges)
    ]
