"""`lake query` on the command line: forms of the answer, and what it says when there is none."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from tardis_machine.cli import main

SQL = "select exchange, price, sizes, seen from silver.trades order by price"

pytestmark = pytest.mark.usefixtures("restored_logging")


@pytest.fixture
def lake(tmp_path: Path) -> str:
    rows = pa.table(
        {
            "exchange": ["bitmex", 'de"ri,bit'],
            "price": [1.5, 2.5],
            "sizes": [[1.0, 2.0], []],
            "seen": [datetime(2024, 3, 1, 12, tzinfo=UTC), None],
            "date": [date(2024, 3, 1)] * 2,
        }
    )
    write_deltalake(tmp_path / "lake" / "silver" / "trades", rows, partition_by=["date"])
    return str(tmp_path / "lake")


def ask(lake: str, sql: str, *flags: str) -> int:
    return main(["lake", "query", "--lake", lake, sql, *flags], {})


def test_table_is_for_people(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(lake, SQL) == 0
    shown = capsys.readouterr().out
    assert "bitmex" in shown
    assert "[1.0, 2.0]" in shown


def test_csv_quotes_text_and_writes_lists_as_text(
    lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(lake, SQL, "--format", "csv") == 0
    assert capsys.readouterr().out.splitlines() == [
        "exchange,price,sizes,seen",
        '"bitmex",1.5,"[1.0, 2.0]",2024-03-01 12:00:00.000000Z',
        '"de""ri,bit",2.5,"[]",',
    ]


def test_json_has_one_object_per_row(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(lake, SQL, "--format", "json") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"exchange": "bitmex", "price": 1.5, "sizes": [1.0, 2.0], "seen": "2024-03-01T12:00:00Z"},
        {"exchange": 'de"ri,bit', "price": 2.5, "sizes": [], "seen": None},
    ]


def test_json_sums_are_numbers(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "select sum(n)::hugeint as s from (select count(*) as n from silver.trades)"
    assert ask(lake, sql, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"s": 2}


@pytest.mark.parametrize("format_", ["table", "csv", "json", "parquet"])
def test_answer_goes_to_a_file(
    lake: str, tmp_path: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "answer"
    assert ask(lake, SQL, "--format", format_, "--output", str(output)) == 0
    assert capsys.readouterr().out == ""
    found = str(pyarrow.parquet.read_table(output)) if format_ == "parquet" else output.read_text()
    assert "bitmex" in found


@pytest.mark.parametrize(
    ("sql", "flags", "message"),
    [
        ("select * from silver.trade", (), "Unknown table 'silver.trade'. Did you mean"),
        ("selec 1", (), "DuckDB rejected the query: Parser Error"),
        ("select prise from silver.trades", (), 'Candidate bindings: "price"'),
        ("select cast(exchange as int) from silver.trades", (), "Could not convert string"),
        ("/* nothing */", (), "Use a select statement."),
        ("select 1", ("--format", "parquet"), "--output FILE"),
        ("select 1", ("--format", "xml"), "table, csv, json, parquet"),
        (
            "select 1",
            ("--output", "no/such/folder/answer"),
            "the directory no/such/folder does not exist",
        ),
    ],
)
def test_what_cannot_be_answered_is_explained(
    lake: str,
    sql: str,
    flags: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ask(lake, sql, *flags) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_failure_while_rows_come_is_explained(
    lake: str, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(lake, "select exchange::int from silver.trades", "--format", format_) == 2
    assert "DuckDB rejected the query: Conversion Error" in capsys.readouterr().err


def test_missing_lake_says_how_to_build_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(str(tmp_path / "nowhere"), "select * from silver.trades") == 2
    shown = capsys.readouterr().err
    assert "There is no lake at" in shown
    assert "tardis-machine lake run" in shown


def test_polars_reads_the_same_table(lake: str) -> None:
    frame = polars.scan_delta(f"{lake}/silver/trades").select("exchange", "price").collect()
    assert sorted(frame.rows()) == [("bitmex", 1.5), ('de"ri,bit', 2.5)]
