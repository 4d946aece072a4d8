"""Recorded lines as raw responses carry them."""

import json

import pytest

from tardis_machine.model.requests import ReplayRange
from tardis_machine.model.time import parse_us
from tardis_machine.session.raw import (
    GapFolder,
    cut_lines,
    http_lines,
    line_times,
    messages,
    split_lines,
)

GAP = b""


def line(second: str, message: str = "{}") -> bytes:
    return f"2024-03-01T00:00:{second}0Z {message}".encode()


ONE, TWO, THREE = line("01.000000"), line("02.000000"), line("03.000000")


def exact(start: str, end: str) -> ReplayRange:
    return ReplayRange(parse_us(f"2024-03-01T00:00:{start}Z"), parse_us(f"2024-03-01T00:00:{end}Z"))


def test_chunk_is_split_at_line_feeds_and_empty_lines_stay() -> None:
    assert split_lines(b"\na\n\n\nb\n") == [GAP, b"a", GAP, GAP, b"b"]
    assert split_lines(b"") == []


def test_repeated_gaps_become_one_across_chunks() -> None:
    told: list[str] = []
    folder = GapFolder(keep=True, on_disconnect=lambda: told.append("gap"))
    chunks = ([GAP, GAP, ONE, GAP], [GAP], [GAP, TWO], [THREE, GAP], [], [GAP])
    assert [folder.fold(list(chunk), has_gaps=GAP in chunk) for chunk in chunks] == [
        [GAP, ONE, GAP],
        [],
        [TWO],
        [THREE, GAP],
        [],
        [],
    ]
    assert len(told) == 3


def test_gaps_are_dropped_when_nobody_wants_them() -> None:
    told: list[str] = []
    folder = GapFolder(keep=False, on_disconnect=lambda: told.append("gap"))
    assert folder.fold([GAP, ONE, GAP, GAP, TWO], has_gaps=True) == [ONE, TWO]
    assert folder.fold([GAP], has_gaps=True) == []
    assert len(told) == 3


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [
        ("01.000000", "03.000001", [ONE, GAP, TWO, GAP, THREE]),
        ("01.000001", "03.000001", [TWO, GAP, THREE]),
        ("01.000000", "03.000000", [ONE, GAP, TWO]),
        ("01.500000", "02.500000", [TWO]),
        ("02.100000", "02.900000", []),
        ("10.000000", "20.000000", []),
    ],
)
def test_exact_range_keeps_its_lines_and_the_gaps_between_them(
    start: str, end: str, kept: list[bytes]
) -> None:
    assert cut_lines([ONE, GAP, TWO, GAP, THREE], exact(start, end)) == kept


def test_gap_without_lines_around_it_is_kept_by_an_exact_range() -> None:
    assert cut_lines([GAP], exact("01.000000", "02.000000")) == [GAP]
    assert cut_lines([GAP, ONE], exact("01.000000", "02.000000")) == [GAP, ONE]


def test_http_lines_carry_time_and_untouched_message() -> None:
    odd = line("02.000000", '{"a" : "b c","n":1.0}')
    body = http_lines([ONE, GAP, odd])
    first, gap, second, end = body.split(b"\n")
    assert json.loads(first) == {"localTimestamp": "2024-03-01T00:00:01.0000000Z", "message": {}}
    assert (gap, end) == (b"", b"")
    assert second.endswith(b'"message":{"a" : "b c","n":1.0}}')
    assert http_lines([ONE]) == first + b"\n"


def test_native_clients_get_the_messages_alone() -> None:
    assert messages([ONE, GAP, line("02.000000", "[1]")]) == [b"{}", b"[1]"]


def test_gap_has_the_time_of_its_neighbour() -> None:
    one, two = (parse_us(f"2024-03-01T00:00:0{second}.000000Z") for second in (1, 2))
    assert line_times([GAP, GAP, ONE, GAP, TWO]) == [one, one, one, one, two]
