"""What `publish` is asked for: replays or live streams, by flags or by a TOML file."""

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from tardis_machine.app.settings.commands import PublishOptions
from tardis_machine.model.data_types import check_data_types
from tardis_machine.model.errors import SettingsError, nearest_hint
from tardis_machine.model.requests import StreamRequest
from tardis_machine.session.orders import ReplayOrder

_T = TypeVar("_T")


class StreamOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One live stream to publish."""

    exchange: str
    data_types: tuple[str, ...]
    symbols: tuple[str, ...] = ()

    def request(self) -> StreamRequest:
        """Return it as a client would ask for it, with everything that a feed can tell."""
        check_data_types(self.data_types)
        return StreamRequest(
            exchange=self.exchange,
            symbols=list(self.symbols) or None,
            data_types=list(self.data_types),
            with_disconnect_messages=True,
            with_error_messages=True,
        )


class Orders(NamedTuple):
    """What is to be published: replays or streams, not both."""

    replays: tuple[ReplayOrder, ...] = ()
    streams: tuple[StreamOrder, ...] = ()


def read_orders(options: PublishOptions) -> Orders:
    """Return what flags or a file ask for; SettingsError with everything that is wrong."""
    flags: dict[str, Any] = {"exchange": options.exchange, "data-types": options.data_types}
    times = {"from": options.start, "to": options.end}
    if options.file is not None:
        orders = _by_file(options.file, {**flags, **times, "stream": options.stream})
        return _without_warm_up(orders) if options.no_warm_up else orders
    if options.stream:
        return _stream_by_flags(options, flags, times)
    missing = [f"--{name} is required." for name, value in {**flags, **times}.items() if not value]
    if missing:
        raise SettingsError(
            *missing,
            "Or name a TOML file with [[replay]] or [[stream]] tables, or give --stream or "
            "--redrive.",
        )
    assert options.exchange is not None
    assert options.start is not None
    assert options.end is not None
    replay = ReplayOrder(
        exchange=options.exchange,
        data_types=options.data_types,
        start=options.start,
        end=options.end,
        symbols=options.symbols,
        warm_up=not options.no_warm_up,
    )
    return Orders(replays=(replay,))


def _without_warm_up(orders: Orders) -> Orders:
    return orders._replace(
        replays=tuple(replace(replay, warm_up=False) for replay in orders.replays)
    )


def _stream_by_flags(
    options: PublishOptions, flags: dict[str, Any], times: dict[str, Any]
) -> Orders:
    problems = [f"--{name} is required." for name, value in flags.items() if not value]
    problems += [
        f"--{name} cannot be combined with --stream, which publishes what comes from now on."
        for name, value in times.items()
        if value
    ]
    if options.job is not None:
        problems.append("--job cannot be combined with --stream: a stream has nothing to resume.")
    if problems:
        raise SettingsError(*problems)
    assert options.exchange is not None
    order = StreamOrder(
        exchange=options.exchange, data_types=options.data_types, symbols=options.symbols
    )
    return Orders(streams=(order,))


def _by_file(path: Path, flags: dict[str, Any]) -> Orders:
    given = [name for name, value in flags.items() if value]
    if given:
        names = ", ".join(f"--{name}" for name in given)
        raise SettingsError(f"Describe the work by {path} or by {names}, not both.")
    return read_job_file(path)


def read_job_file(path: Path) -> Orders:
    """Read the tables of a TOML file; SettingsError with every problem."""
    # Most runs read no file, and the parser takes a while to import.
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error
    problems = [
        f"{path}: unknown key '{key}'.{nearest_hint(key, ['replay', 'stream'])}"
        for key in content
        if key not in ("replay", "stream")
    ]
    replays = _read_tables(path, "replay", content, ReplayOrder, problems)
    streams = _read_tables(path, "stream", content, StreamOrder, problems)
    if replays and streams:
        problems.append(f"{path}: [[replay]] and [[stream]] tables need a file each.")
    if not (replays or streams or problems):
        problems.append(f"{path}: no [[replay]] or [[stream]] table.")
    if problems:
        raise SettingsError(*problems)
    return Orders(replays, streams)


def _read_tables(
    path: Path, name: str, content: dict[str, Any], kind: type[_T], problems: list[str]
) -> tuple[_T, ...]:
    tables = content.get(name, [])
    if not isinstance(tables, list):
        problems.append(f"{path}: write [[{name}]], not [{name}].")
        return ()
    orders = []
    for number, table in enumerate(tables, 1):
        try:
            orders.append(msgspec.convert(table, kind))
        except msgspec.ValidationError as error:
            problems.append(f"{path}: {name} {number}: {error}.")
    return tuple(orders)
