"""Live feeds of combined streams: how one subscribes, and which messages REST answers become."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from tardis_machine.exchanges.feeds import (
    Access,
    Poll,
    RestCalls,
    Snapshots,
    Verdict,
    WeightBudget,
    symbols_of,
    variable,
)
from tardis_machine.model.errors import SourceError
from tardis_machine.model.requests import Filter

DEPTH, SNAPSHOT, OPEN_INTEREST = "depth", "depthSnapshot", "openInterest"

GENERATED = frozenset({SNAPSHOT, OPEN_INTEREST})

SNAPSHOT_LEVELS = 1000
CONCURRENT_SNAPSHOTS = 4
CONCURRENT_POLLS = 10
POLL_RESERVE = 100
SHORTEST_POLL_SECONDS = 1.0
USED_HEADER = "x-mbx-used-weight-1m"


class RateLimit(Struct, rename="camel"):
    """One limit of the venue."""

    rate_limit_type: str
    limit: int


class ExchangeInfo(Struct, rename="camel"):
    """What the venue says about itself, for its limits."""

    rate_limits: list[RateLimit] = []


class Header(Struct):
    """What tells refusals from other messages."""

    stream: str | None = None
    error: Any = None
    result: Any = msgspec.UNSET


_info = msgspec.json.Decoder(ExchangeInfo)
_header = msgspec.json.Decoder(Header)


def subscribe_frames(
    exchange: str,
    filters: Sequence[Filter],
    speeds: Mapping[str, str],
    method: str = "SUBSCRIBE",
) -> tuple[str, ...]:
    """Return a frame per channel, with the streams of all its symbols."""
    return tuple(
        msgspec.json.encode(
            {"method": method, "params": streams_of(exchange, entry, speeds), "id": number}
        ).decode()
        for number, entry in enumerate(filters, start=1)
        if entry.channel not in GENERATED
    )


def streams_of(exchange: str, entry: Filter, speeds: Mapping[str, str]) -> list[str]:
    """Return the names of a channel's streams; some have a speed."""
    speed = speeds.get(entry.channel)
    suffix = f"@{speed}" if speed else ""
    return [f"{symbol}@{entry.channel}{suffix}" for symbol in symbols_of(exchange, entry)]


def read_subscribe(message: Any) -> list[Filter] | None:
    """Read `{"method": "SUBSCRIBE", "params": ["btcusdt@depth@100ms"]}`; the speed is dropped."""
    if message.get("method") != "SUBSCRIBE":
        return None
    parts = [stream.split("@") for stream in message["params"]]
    return [Filter(channel, (symbol,)) for symbol, channel, *_ in parts]


def judge(message: bytes) -> Verdict:
    """Find refusals: whatever is neither data nor an acknowledgement."""
    header = _header.decode(message)
    is_answer = header.result is None
    is_data = header.stream is not None
    return Verdict.IGNORED if header.error is None and (is_answer or is_data) else Verdict.ERROR


def weight_budget(exchange: str, rest_url: str, access: Access) -> WeightBudget:
    """Describe how many requests the venue accepts."""
    limit = access.number(variable(exchange, "", "_REQUEST_WEIGHT_LIMIT"), 0)
    return WeightBudget(
        limit_url=f"{rest_url}/exchangeInfo",
        read_limit=read_weight_limit,
        used_header=USED_HEADER,
        limit=int(limit) or None,
    )


def read_weight_limit(body: bytes) -> int:
    """Find the limit among those of the venue."""
    for limit in _info.decode(body).rate_limits:
        if limit.rate_limit_type == "REQUEST_WEIGHT":
            return limit.limit
    raise SourceError("exchangeInfo names no limit of REQUEST_WEIGHT.")


def depth_snapshots(exchange: str, rest_url: str, access: Access, weight: int) -> Snapshots:
    """Describe how books begin."""
    concurrency = int(
        access.number(variable(exchange, "", "_CONCURRENCY_LIMIT"), CONCURRENT_SNAPSHOTS)
    )
    reserve = variable(exchange, "", "_MIN_AVAILABLE_WEIGHT_BUFFER")
    return Snapshots(
        channel=DEPTH,
        delay_seconds=access.number(variable(exchange, "", "_SNAPSHOTS_DELAY_MS"), 0) / 1000,
        calls=RestCalls(
            url=lambda symbol: rest_address(rest_url, "depth", symbol, limit=SNAPSHOT_LEVELS),
            wrap=lambda symbol, body: generated_message(symbol, SNAPSHOT, body),
            weight=weight,
            reserve=int(access.number(reserve, 2 * concurrency * weight)),
            concurrency=concurrency,
            budget=weight_budget(exchange, rest_url, access),
        ),
    )


def open_interest_poll(
    exchange: str, rest_url: str, access: Access, symbols: Sequence[str], interval_seconds: float
) -> Poll:
    """Describe how open interest is learned."""
    name = variable(exchange, "", "_OPEN_INTEREST_POLLING_INTERVAL_MS")
    interval = access.number(name, interval_seconds * 1000) / 1000
    return Poll(
        symbols=tuple(symbols),
        interval_seconds=max(interval, SHORTEST_POLL_SECONDS),
        calls=RestCalls(
            url=lambda symbol: rest_address(rest_url, "openInterest", symbol),
            wrap=lambda symbol, body: generated_message(symbol, OPEN_INTEREST, body),
            reserve=POLL_RESERVE,
            concurrency=CONCURRENT_POLLS,
            budget=weight_budget(exchange, rest_url, access),
        ),
    )


def rest_address(rest_url: str, resource: str, symbol: str, **parameters: int) -> str:
    """Return the address of what the venue tells about a symbol."""
    return f"{rest_url}/{resource}?{urlencode({'symbol': symbol.upper(), **parameters})}"


def generated_message(symbol: str, channel: str, body: bytes) -> bytes:
    """Make the message that recorders make of a REST answer."""
    return b'{"stream":"%s@%s","generated":true,"data":%s}' % (
        symbol.encode(),
        channel.encode(),
        body,
    )
