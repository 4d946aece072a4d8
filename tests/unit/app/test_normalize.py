"""`tardis-machine normalize`: recorded lines in, NDJSON out."""

import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from msgspec.structs import replace

from tardis_machine.app.normalize import LineNormalizer, check_options, normalize_files
from tardis_machine.app.settings.commands import NormalizeOptions
from tardis_machine.cli import main
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.spec import Exchange, Handler, Mapper, Version, channel_filters
from tardis_machine.exchanges.versions import venue_of
from tardis_machine.model.errors import MappingError, RequestError, SourceError
from tardis_machine.model.time import parse_us
from tests.compat.recorded import BITMEX, book, trade

LINES = b"".join(BITMEX.values())
TRADE = trade("00:01.000000", 1.0)


def options(*files: Path, **changes: Any) -> NormalizeOptions:
    chosen = {"exchange": "bitmex", "data_types": ("trade", "book_change"), "files": files}
    return NormalizeOptions(**{**chosen, **changes})


def normalized(chosen: NormalizeOptions, standard_input: bytes = b"") -> list[dict[str, Any]]:
    body = b"".join(normalize_files(chosen, io.BytesIO(standard_input)))
    assert not body or body.endswith(b"\n")
    return [json.loads(line) for line in body.splitlines()]


def kinds(records: list[dict[str, Any]]) -> list[str]:
    return [record["type"] for record in records]


def test_standard_input_is_read_when_no_file_is_named() -> None:
    records = normalized(options(), LINES)
    assert kinds(records) == [
        "book_change",
        "trade",
        "book_change",
        "trade",
        "book_change",
        "trade",
    ]
    assert records[1]["price"] == 101


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("lines.txt", bytes),
        ("lines", bytes),
        ("lines.gz", gzip.compress),
        ("lines.zst", zstandard.ZstdCompressor().compress),
    ],
)
def test_files_are_read_plain_or_compressed(tmp_path: Path, name: str, compress: Any) -> None:
    path = tmp_path / name
    path.write_bytes(compress(LINES))
    assert normalized(options(path)) == normalized(options(), LINES)


def test_files_are_read_in_their_order_with_one_book(tmp_path: Path) -> None:
    parts = [
        book("00:00.100000", "partial", ("Buy", 100.0, 5), ("Sell", 101.0, 7)),
        book("01:00.000000", "update", ("Buy", 100.0, 6)),
    ]
    files = [tmp_path / name for name in ("b.txt", "a.txt")]
    for path, content in zip(files, parts, strict=True):
        path.write_bytes(content)
    records = normalized(options(*files, data_types=("quote",)))
    assert [record["bids"][0]["amount"] for record in records] == [5, 6]


def test_last_line_needs_no_line_feed(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(TRADE.rstrip())
    assert kinds(normalized(options(path))) == kinds(normalized(options(), TRADE)) == ["trade"]


def test_lines_longer_than_a_piece_are_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    levels = [("Buy", float(price), 1.0) for price in range(1, 20_000)]
    path.write_bytes(book("00:00.100000", "partial", *levels) + TRADE)
    assert kinds(normalized(options(path))) == ["book_change", "trade"]


def test_symbols_are_taken_in_any_case() -> None:
    records = normalized(options(symbols=("ethusd",)), LINES)
    assert [(record["type"], record["symbol"]) for record in records] == [("trade", "ETHUSD")]


def test_disconnects_are_written_when_asked() -> None:
    asked = options(with_disconnects=True, symbols=("ETHUSD",), data_types=("trade",))
    assert kinds(normalized(asked, LINES)) == ["disconnect", "disconnect", "trade"]
    assert "disconnect" not in kinds(normalized(options(), LINES))


def test_computed_types_hide_their_sources() -> None:
    asked = options(data_types=("book_snapshot_1_0ms", "trade_bar_2ticks"))
    records = normalized(asked, LINES)
    assert kinds(records) == ["book_snapshot", "book_snapshot", "trade_bar", "book_snapshot"]
    assert records[2]["name"] == "trade_bar_2ticks"


def test_new_format_gets_new_mappers_from_its_date_on() -> None:
    bitmex = REGISTRY["bitmex"]
    venue = venue_of(bitmex)
    old, new = Version(SilentMapper, channel_filters("trade")), venue.versions["trade"][0]
    generations = replace(venue, versions={"trade": (old, new)})
    switched = Exchange(
        id="bitmex",
        channels=bitmex.channels,
        data_types=("trade",),
        switches_us={"trade": (parse_us("2024-03-01T00:00:02.000Z"),)},
        load_venue=lambda: generations,
    )
    asked = options(data_types=("trade",), with_disconnects=True)
    normalizer = LineNormalizer(switched, asked)
    times = ("00:01.000000", "00:01.999999", "00:02.000000", "00:03.000000")
    chunk = b"".join(trade(time, number) for number, time in enumerate(times))
    after_gap = b"\n" + trade("00:04.000000", 4.0)
    bodies = b"".join([*normalizer.normalize(chunk), *normalizer.normalize(after_gap)])
    records = [json.loads(line) for line in bodies.splitlines()]
    assert [record.get("price") for record in records] == [2, 3, None, 4]


class SilentMapper(Mapper):
    """A generation that reads nothing."""

    def handler(self, tag: str) -> Handler | None:
        return None


def test_pipe_is_answered_as_lines_come() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as feed:
        bodies = normalize_files(options(), source)
        feed.write(TRADE)
        assert json.loads(next(bodies))["price"] == 1
        feed.write(trade("00:02.000000", 2.0))
        assert json.loads(next(bodies))["price"] == 2


@pytest.mark.parametrize("line", [b"junk", b"2024-03-01T00:00:03.0000000Z {", b"\xff\xfe"])
def test_records_before_a_line_that_is_no_message_are_kept(line: bytes) -> None:
    bodies: Iterator[bytes] = normalize_files(options(), io.BytesIO(TRADE + line + b"\n" + TRADE))
    assert json.loads(next(bodies))["price"] == 1
    with pytest.raises(MappingError, match=r"Cannot map a message of bitmex: .* Received: "):
        next(bodies)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"exchange": "bitmax"}, "Unknown exchange 'bitmax'. Did you mean 'bitmex'?"),
        ({"data_types": ("trades",)}, "Unknown data type 'trades'. Did you mean 'trade'?"),
        ({"data_types": ("trade_bar_1h",)}, "invalid data type: trade_bar_1h"),
        ({"data_types": ("option_summary",)}, "normalizeOptionsSummary: bitmex not supported"),
    ],
)
def test_bad_option_is_refused_with_what_is_valid(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError) as caught:
        check_options(options(**changes))
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("name", ["missing.txt", "missing.zst"])
def test_missing_file_is_a_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match=f"{name} cannot be read: .*No such file"):
        normalized(options(tmp_path / name))


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BufferedWriter]:
    """What a test writes here is the command's standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "r") as source, os.fdopen(writing, "wb") as feed:
        monkeypatch.setattr(sys, "stdin", source)
        yield feed


COMMAND = ("normalize", "--exchange", "bitmex", "--data-types", "trade")


@pytest.mark.usefixtures("restored_logging")
def test_command_reads_a_pipe_and_writes_lines(
    piped: io.BufferedWriter, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    feeder = threading.Thread(target=lambda: (piped.write(LINES * 500), piped.close()))
    feeder.start()
    assert main([*COMMAND, "--symbols", "XBTUSD,ETHUSD"], {}) == 0
    feeder.join()
    output = capfdbinary.readouterr().out
    assert [json.loads(line)["price"] for line in output.splitlines()] == [101, 102, 100.5] * 500


@pytest.mark.usefixtures("restored_logging")
def test_command_fails_with_1_and_shows_what_it_received(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(TRADE + b"junk\n")
    assert main([*COMMAND, str(path)], {}) == 1
    sys.stdout.flush()
    output, errors = capfdbinary.readouterr()
    assert [json.loads(line)["price"] for line in output.splitlines()] == [1]
    assert b"Received: junk" in errors


@pytest.mark.usefixtures("restored_logging")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--exchange", "bitmax", "--data-types", "trade"], "Did you mean 'bitmex'?"),
        (["--exchange", "bitmex", "--data-types", "trades"], "Did you mean 'trade'?"),
        (["--exchange", "bitmex"], "--data-types is required"),
    ],
)
def test_command_refuses_bad_options_with_2(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["normalize", *words], {}) == 2
    output, errors = capsys.readouterr()
    assert output == ""
    assert text in errors
