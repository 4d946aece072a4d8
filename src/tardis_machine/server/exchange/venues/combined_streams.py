"""Combined streams: subscribed by message or by address, wrapped with their names."""

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.session import Markets, Session, read_object, texts_of
from tardis_machine.sources.simulator.binance.streams import CombinedStreamsFeed

MAX_STREAMS = 1024

_STREAM = re.compile(r"(?P<symbol>[a-z0-9_]+)@(?P<channel>\w+)(?:@(?P<speed>\d+m?s))?")
_INVALID_REQUEST = 2
_INVALID_JSON = 3
_METHODS = "`SUBSCRIBE`, `UNSUBSCRIBE`, `LIST_SUBSCRIPTIONS`, `SET_PROPERTY`, `GET_PROPERTY`"

C = TypeVar("C", bound=CombinedStreamsFeed)


class CombinedStreamsSession(Session[C]):
    """Acknowledges every well-formed stream; those that do not exist stay silent, as there."""

    numbered_book: ClassVar[str | None] = "depth"
    speeds: ClassVar[Mapping[str, tuple[str, ...]]]
    """Channel -> the speeds that a stream's name may end with."""
    max_messages_per_second: ClassVar[int]

    def __init__(self, markets: Markets[C], connection: Connection, clock: MarketClock) -> None:
        super().__init__(markets, connection, clock)
        self._is_combined = "stream" in connection.address.path.split("/")
        self._silent: set[str] = set()
        self._received: deque[float] = deque(maxlen=self.max_messages_per_second)

    def open(self) -> None:
        """Subscribe what the address names: `?streams=a/b`, or `/ws/a/b`."""
        address = self.connection.address
        named = address.query.get("streams") or address.path.partition("ws/")[2]
        for stream in filter(None, named.split("/")):
            self._add(stream)

    def receive(self, text: str) -> None:
        """Answer a method call."""
        if self._is_too_fast():
            self.connection.close(1008, "Too many requests")
            return
        call = read_object(text)
        if call is None:
            self._fail(_INVALID_JSON, "Invalid JSON: expected value at line 1 column 1", None)
        else:
            self._call(call)

    def _is_too_fast(self) -> bool:
        now = self.clock.passed_seconds()
        is_full = len(self._received) == self.max_messages_per_second
        is_too_fast = is_full and now - self._received[0] < 1.0
        self._received.append(now)
        return is_too_fast

    def _call(self, call: dict[str, Any]) -> None:
        method, request_id = call.get("method"), call.get("id")
        if method == "LIST_SUBSCRIPTIONS":
            self.send({"result": [*self.names, *sorted(self._silent)], "id": request_id})
        elif method in ("SUBSCRIBE", "UNSUBSCRIBE"):
            self._change(method, texts_of(call.get("params")), request_id)
        elif method == "SET_PROPERTY" and call.get("params") == ["combined", True]:
            self._is_combined = True
            self.send({"result": None, "id": request_id})
        elif method == "GET_PROPERTY":
            self.send({"result": self._is_combined, "id": request_id})
        else:
            unknown = f"Invalid request: unknown variant `{method}`, expected one of {_METHODS}"
            self._fail(_INVALID_REQUEST, unknown, request_id)

    def _change(self, method: str, streams: list[str] | None, request_id: Any) -> None:
        problem = self._problem(streams)
        if streams is None or problem:
            self._fail(_INVALID_REQUEST, f"Invalid request: {problem}", request_id)
            return
        # The venue acknowledges before the first message of a stream.
        self.send({"result": None, "id": request_id})
        for stream in streams:
            if method == "SUBSCRIBE":
                self._add(stream)
            else:
                self.unsubscribe(stream)
                self._silent.discard(stream)

    def _problem(self, streams: list[str] | None) -> str | None:
        if streams is None:
            return "params must be a list of stream names"
        if not all("@" in stream or stream.startswith("!") for stream in streams):
            return "invalid stream name"
        if len(self.names) + len(self._silent) + len(streams) > MAX_STREAMS:
            return f"a connection holds at most {MAX_STREAMS} streams"
        return None

    def _fail(self, code: int, text: str, request_id: Any) -> None:
        self.send({"error": {"code": code, "msg": text}, "id": request_id})

    def _add(self, stream: str) -> None:
        if self.has(stream) or stream in self._silent:
            return
        found = _STREAM.fullmatch(stream)
        market = self.markets.get(found["symbol"]) if found else None
        if found is None or market is None or not self._has_stream(found):
            self._silent.add(stream)
            return

        def combine(body: str) -> str:
            body = self.convert(body)
            return f'{{"stream":"{stream}","data":{body}}}' if self._is_combined else body

        self.subscribe(stream, market, found["channel"], combine)

    def _has_stream(self, named: re.Match[str]) -> bool:
        channel, speed = named["channel"], named["speed"]
        is_known = channel in self.speeds and (speed is None or speed in self.speeds[channel])
        return is_known and self.streams(channel)

    def streams(self, channel: str) -> bool:
        """Say whether the path of this connection streams a channel."""
        return True

    def convert(self, body: str) -> str:
        """Return a message as this connection asked for it."""
        return body
