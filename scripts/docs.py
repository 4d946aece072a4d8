"""Write the documents that are derived from declarations, or check that they are fresh.

`make docs` writes them; `make lint` runs this with `--check`.
"""

import sys
import types
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import msgspec

from tardis_machine.app.settings.options import Option, choices_of, options_of
from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import BusSettings, EventBusSettings
from tardis_machine.cli.commands import COMMANDS
from tardis_machine.cli.help import meaning, metavar, shown_default
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.exchanges.versions import switches_us, venue_of
from tardis_machine.lake.tables import TABLES
from tardis_machine.model.control import Disconnect, FeedError
from tardis_machine.model.data_types import COMPUTED_PATTERNS, PLAIN_TYPES
from tardis_machine.model.records import RECORD_TYPES
from tardis_machine.model.time import us_text
from tardis_machine.telemetry.metrics import Metrics

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "<!-- Written by `make docs` from the declarations in the code. Do not edit. -->"


def settings_document() -> str:
    """Describe every option of every command."""
    groups: dict[type, dict[str, Option]] = {}
    users: dict[type, list[str]] = {}
    for command in COMMANDS:
        for option in options_of(command.settings):
            if option.declared.overrides:
                continue
            owner = owner_of(option)
            groups.setdefault(owner, {}).setdefault(option.env, option)
            if command.name not in users.setdefault(owner, []):
                users[owner].append(command.name)
    lines = ["# Settings", "", NOTE, "", SETTINGS_RULES]
    for owner, members in groups.items():
        commands = ", ".join(f"`{name}`" for name in users[owner])
        lines += ["", f"## {summary(owner)}", "", f"Commands: {commands}.", ""]
        lines += table(
            ("Flag", "Variable", "TOML key", "Default", "Meaning"), map(row_of, members.values())
        )
        if owner is EventBusSettings:
            lines += ["", OVERRIDES_RULE]
    return "\n".join(lines) + "\n"


SETTINGS_RULES = """\
Every option has one declaration and three spellings. A flag beats a variable, a variable beats the
TOML file given by `--config`, and the file beats the default. `PORT` alone beats everything, for
the HTTP port.

- Flags take `--name value` or `--name=value`; the last one wins. Options that are off by default
  take no value on the command line and `true` or `false` elsewhere.
- Lists are comma separated, maps are `key:value` entries; JSON works for both.
- Sizes take bytes or `KiB MiB GiB KB MB GB`. A unit in a name (`-ms`, `-seconds`) is the unit of
  the number.
- Where a cell has several names, the others are aliases of the first.
- A secret has a second form with `-file` that reads it from a file.
- An unknown name is refused with the nearest valid one. All problems are reported together and the
  exit code is 2."""


OVERRIDES_RULE = """\
Each of them but the producer id can have another value for one bus, in the TOML table of the bus or
by its variable: `retry_max_ms` in `[kafka]`, or `TM_KAFKA_RETRY_MAX_MS`. There are no flags for
that."""


def tables_document() -> str:
    """Describe every table of the lake."""
    lines = ["# Tables", "", NOTE, "", "Delta tables under the root of a [lake](lake.md)."]
    for declared in TABLES.values():
        lines += ["", f"## {declared.name}", "", declared.meaning, ""]
        lines += [
            f"Key: {', '.join(declared.key)}. Partitioned by {', '.join(declared.partition_by)}.",
            "",
        ]
        rows = (
            (f"`{column.name}`", column.type.value, column.unit, column.meaning)
            for column in declared.columns
        )
        lines += table(("Column", "Type", "Unit", "Meaning"), rows)
    return "\n".join(lines) + "\n"


def owner_of(option: Option) -> type:
    """Return the class under whose heading an option stands."""
    if len(option.path) > 1:
        return option.group
    # What a command inherits belongs to the class that every command shares.
    classes = reversed(option.group.__mro__)
    return next(c for c in classes if option.field in vars(c).get("__annotations__", {}))


def row_of(option: Option) -> tuple[str, ...]:
    """Return the table row of one option."""
    value = "" if option.is_flag else f" {metavar(option)}"
    flag, *aliases = option.flags or (option.name,)
    shown = flag if option.declared.is_argument else flag + value
    names = [(shown, *aliases), option.variables, option.keys]
    default = shown_default(option)
    return (
        *(", ".join(f"`{name}`" for name in spelled) for spelled in names),
        f"`{default}`" if default else "",
        meaning(option),
    )


def metrics_document() -> str:
    """Describe every metric."""
    rows = (
        (f"`{info.name}`", info.kind, ", ".join(info.labels), info.help) for info in Metrics().infos
    )
    intro = "Served at `/metrics` in the Prometheus text format."
    return "\n".join(
        [
            "# Metrics",
            "",
            NOTE,
            "",
            intro,
            "",
            *table(("Metric", "Kind", "Labels", "Meaning"), rows),
            "",
            "## Reasons",
            "",
            "Values of `reason` in metrics, logs and dead letters of buses.",
            "",
            *table(("Reason", "Meaning"), ((f"`{each}`", each.meaning) for each in Reason if each)),
            "",
        ]
    )


def data_types_document() -> str:
    """Describe every record type and every name that can be requested."""
    lines = ["# Data types", "", NOTE, "", "## Names in requests", ""]
    lines += [f"- `{name}`" for name in (*PLAIN_TYPES, *COMPUTED_PATTERNS)]
    lines += [
        "",
        "`book_snapshot` with an interval of `0ms` is sent on every change; `quote` is",
        "`book_snapshot_1_0ms` under a shorter name. Output records carry the requested name.",
    ]
    records = {**RECORD_TYPES, "disconnect": Disconnect, "error": FeedError}
    for name, record in records.items():
        lines += ["", f"## {name}", "", summary(record) + ".", ""]
        lines += table(("Field", "Type", "Present"), field_rows(record))
    return "\n".join(lines) + "\n"


def field_rows(record: type[msgspec.Struct]) -> Iterable[tuple[str, ...]]:
    """Return field, type and presence of a record, in wire order."""
    yield "`type`", "text", "always"
    for field in msgspec.structs.fields(record):
        presence = "when known" if field.default is msgspec.UNSET else "always"
        yield f"`{field.encode_name}`", type_text(field.type), presence


def type_text(annotation: Any) -> str:
    """Name a type for readers of JSON."""
    if get_origin(annotation) in (Union, types.UnionType):
        kept = [part for part in get_args(annotation) if part is not msgspec.UnsetType]
        return " or ".join(dict.fromkeys(type_text(part) for part in kept))
    if choices := choices_of(annotation):
        return " or ".join(f"`{choice}`" for choice in choices)
    if get_args(annotation):
        return f"list of {type_text(get_args(annotation)[0])}"
    names = {
        str: "text",
        float: "number",
        int: "integer",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(annotation) or "`{price, amount}`"


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return lines + [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows
    ]


def summary(owner: type) -> str:
    """Return the first sentence of a class's docstring, without its full stop."""
    return (owner.__doc__ or owner.__name__).splitlines()[0].rstrip(".")


def bus_document(path: Path, bus: BusSettings) -> str:
    """Return the page of a bus with its own options in their place, between the two marks."""
    own = [
        option
        for option in options_of(PublishingSettings)
        if option.names.prefix == bus.bus and len(option.path) == OWN_PATH_LENGTH
    ]
    # What only this bus has comes first; what all have is better known.
    options = sorted(own, key=lambda option: option.field not in type(bus).__annotations__)
    lines = [
        "",
        *table(("Flag", "Variable", "TOML key", "Default", "Meaning"), map(row_of, options)),
    ]
    name = bus.bus.replace("-", "_")
    lines += ["", BUS_RULE.format(table=name, variable=name.upper()), ""]
    return put_between(path.read_text(), BUS_START, BUS_END, lines)


def exchanges_document(path: Path) -> str:
    """Return the page of the exchanges with ids, books and dates between their marks."""
    rows = (
        (
            f"`{exchange.id}`",
            ", ".join(exchange.data_types) if exchange.has_mappers else "raw only",
            "yes" if exchange.has_mappers and venue_of(exchange).feed is not None else "",
            # A channel that is listed twice is one channel.
            " ".join(f"`{channel}`" for channel in dict.fromkeys(exchange.channels)),
        )
        for exchange in REGISTRY.values()
    )
    lines = ["", *table(("Exchange", "Normalized data types", "Live", "Channels"), rows), "", ""]
    text = put_between(path.read_text(), EXCHANGES_START, EXCHANGES_END, lines)
    heads = ("Exchange", "Books", "Not looked at")
    lines = ["", *table(heads, book_rows()), "", ""]
    text = put_between(text, BOOKS_START, BOOKS_END, lines)
    lines = ["", *table(("Exchange", "From", "Data types"), date_rows()), "", ""]
    return put_between(text, DATES_START, DATES_END, lines)


def book_rows() -> Iterable[tuple[str, ...]]:
    """Return how the books of each live feed are kept complete."""
    for exchange in REGISTRY.values():
        feed = venue_of(exchange).feed if exchange.has_mappers else None
        if feed is not None:
            yield f"`{exchange.id}`", feed.books.value, feed.unchecked


def date_rows() -> Iterable[tuple[str, ...]]:
    """Return what changed on which date, of exchanges with mappers."""
    for exchange in REGISTRY.values():
        if not exchange.has_mappers:
            continue
        for switch_us in switches_us(exchange, exchange.data_types):
            names = [
                name for name, dates_us in exchange.switches_us.items() if switch_us in dates_us
            ]
            is_new_format = switch_us in exchange.format_switches_us
            shown = ", ".join(names) + (" (new wire format)" if is_new_format else "")
            yield f"`{exchange.id}`", us_text(switch_us)[:MINUTE_DIGITS].replace("T", " "), shown


def put_between(text: str, start: str, end: str, lines: Iterable[str]) -> str:
    """Return a hand-written page with the lines in place of what stands between two marks."""
    before, mark, rest = text.partition(start)
    _, found_end, after = rest.partition(end)
    if not (mark and found_end):
        sys.exit(f"a page lacks the marks {start.strip()} and {end}: put them back")
    return before + mark + "\n".join(lines) + end + after


OWN_PATH_LENGTH = 2
"""Path of an option that a bus declares itself: the bus, the option."""

BUS_START = "<!-- settings, written by `make docs` -->\n"
BUS_END = "<!-- end of settings -->"
BUS_RULE = """\
Every option of delivery, `event-bus-…`, can have a value for this bus alone, except the producer
id: in the TOML table `[{table}]` or by a variable `TM_{variable}_…`, see
[settings](../settings.md). There are no flags for that."""

EXCHANGES_START = "<!-- exchanges, written by `make docs` -->\n"
EXCHANGES_END = "<!-- end of exchanges -->"
BOOKS_START = "<!-- books, written by `make docs` -->\n"
BOOKS_END = "<!-- end of books -->"
DATES_START = "<!-- dates, written by `make docs` -->\n"
DATES_END = "<!-- end of dates -->"

MINUTE_DIGITS = len("2024-03-01T00:00")


DOCUMENTS: dict[str, Callable[[], str]] = {
    "settings.md": settings_document,
    "metrics.md": metrics_document,
    "data-types.md": data_types_document,
    "tables.md": tables_document,
    "exchanges.md": partial(exchanges_document, DOCS / "exchanges.md"),
    **{
        f"buses/{bus.bus}.md": partial(bus_document, DOCS / "buses" / f"{bus.bus}.md", bus)
        for bus in PublishingSettings().buses
        if bus.bus != "console"
    },
}


def main() -> None:
    """Write or check every document."""
    texts = {DOCS / name: make() for name, make in DOCUMENTS.items()}
    if "--check" in sys.argv[1:]:
        stale = [path.name for path, text in texts.items() if not is_fresh(path, text)]
        sys.exit(f"stale, run `make docs`: {', '.join(stale)}" if stale else 0)
    for path, text in texts.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def is_fresh(path: Path, text: str) -> bool:
    """Say whether a file holds exactly this text."""
    return path.is_file() and path.read_text() == text


if __name__ == "__main__":
    main()
