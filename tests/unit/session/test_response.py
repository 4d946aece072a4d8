"""Bodies of responses: small chunks are joined, and nothing ready is held back."""

from contextlib import aclosing
from pathlib import Path

import pytest
import zstandard

from tardis_machine.model.errors import MappingError
from tardis_machine.model.ndjson import decode_lines
from tardis_machine.model.requests import NormalizedReplayRequest
from tardis_machine.session.context import SessionContext
from tardis_machine.session.mapping import MAPPED_AT_ONCE_BYTES, small_parts
from tardis_machine.session.plan import NormalizedPlan, plan_normalized
from tardis_machine.session.response import client_body
from tardis_machine.sources.archive import ArchiveSource
from tardis_machine.sources.cache import SliceFolder
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.telemetry.clock import system_clock

TRADES = 1000
"""Of some 230 bytes each: more than are mapped at once, less than one piece of a slice."""


def trade_line(number: int) -> bytes:
    return (
        f"2024-03-01T00:00:{number // 100:02d}.{number % 100:02d}00000Z "
        '{"table":"trade","action":"insert","data":[{"timestamp":"2024-03-01T00:00:00.000Z",'
        f'"symbol":"XBTUSD","side":"Buy","size":{number},"price":60000.5,'
        '"trdMatchID":"00000000-0000-0000-0000-000000000000"}]}\n'
    ).encode()


def written_plan(cache: Path, minutes: list[bytes]) -> NormalizedPlan:
    request = NormalizedReplayRequest(
        exchange="bitmex",
        start="2024-03-01",
        end=f"2024-03-01T00:0{len(minutes)}",
        data_types=["trade"],
        symbols=None,
    )
    plan = plan_normalized([request], system_clock())
    (segment,) = plan.entries[0].segments
    folder = SliceFolder(cache, "bitmex", segment.filters)
    for number, content in enumerate(minutes):
        base = folder.base_path(segment.range.start_us + number * 60_000_000)
        base.parent.mkdir(parents=True, exist_ok=True)
        base.with_name(base.name + ".zst").write_bytes(zstandard.compress(content))
    return plan


async def amounts_of_bodies(cache: Path, plan: NormalizedPlan, into: list[list[float]]) -> None:
    settings = ArchiveSettings(cache_dir=cache, offline=True)
    async with ArchiveSource(settings) as source:
        context = SessionContext(source, system_clock)
        async with aclosing(client_body(plan, context)) as bodies:
            async for count, body in bodies:
                records = decode_lines(body)
                assert len(records) == count
                into.append([record.amount for record in records])  # type: ignore[union-attr]


async def test_chunks_of_one_piece_are_one_body_and_pieces_do_not_wait_for_each_other(
    tmp_path: Path,
) -> None:
    lines = [trade_line(number) for number in range(TRADES)]
    assert len(b"".join(lines)) > 2 * MAPPED_AT_ONCE_BYTES
    plan = written_plan(tmp_path, [b"".join(lines), b"".join(lines[:10])])
    bodies: list[list[float]] = []
    await amounts_of_bodies(tmp_path, plan, bodies)
    assert bodies == [[float(n) for n in range(TRADES)], [float(n) for n in range(10)]]


async def test_everything_before_a_bad_message_goes_out_before_the_error(tmp_path: Path) -> None:
    lines = [trade_line(number) for number in range(TRADES)]
    lines[-5] = lines[-5].replace(b'"size":', b'"size":"much",')
    plan = written_plan(tmp_path, [b"".join(lines)])
    bodies: list[list[float]] = []
    with pytest.raises(MappingError):
        await amounts_of_bodies(tmp_path, plan, bodies)
    assert [amount for body in bodies for amount in body] == [float(n) for n in range(TRADES - 5)]


def test_parts_are_whole_lines_and_lack_nothing() -> None:
    lines = [b"x" * size + b"\n" for size in (1, 0, 30, 7, 100, 3, 9)]
    data = b"".join(lines)
    for size_bytes in range(1, len(data) + 2):
        parts = list(small_parts(data, size_bytes))
        assert b"".join(parts) == data
        assert all(part.endswith(b"\n") for part in parts)
