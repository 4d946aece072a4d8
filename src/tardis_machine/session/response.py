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
from tardis_machine.sinks.publisher_link import PublishedStream


async def client_body(
    plan: NormalizedPlan, context: SessionContext, copy: PublishedStream | None = None
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Yield the number of records of each chunk and their NDJSON.

    With `copy`, the same bytes go to the publisher, and so do disconnects that the client did not
    ask to see and the error that ends the stream.
    """
    if copy is None:
        async with aclosing(client_records(plan, context)) as chunks:
            async for records in chunks:
                yield len(records), encode_lines(records)
        return
    try:
        async with aclosing(_copied_body(plan, context, copy)) as bodies:
            async for body in bodies:
                yield body
    except Exception as error:
        await copy.publish(encode_lines(control_errors(plan, error, context.clock)))
        raise
    finally:
        copy.close()


async def _copied_body(
    plan: NormalizedPlan, context: SessionContext, copy: PublishedStream
) -> AsyncGenerator[tuple[int, bytes], None]:
    unseen: list[Record] = []
    async with aclosing(client_records(plan, context, unseen.append)) as chunks:
        async for records in chunks:
            body = encode_lines(records)
            await copy.publish(body)
            if unseen:
                await copy.publish(encode_lines(unseen))
                unseen.clear()
            yield len(records), body
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
