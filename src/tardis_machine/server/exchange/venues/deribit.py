"""Deribit: JSON-RPC calls, notifications of channels, heartbeats that want an answer."""

import re
from functools import partial
from typing import Any, ClassVar

from tardis_machine.server.exchange.connection import Connection
from tardis_machine.server.exchange.player import MarketClock
from tardis_machine.server.exchange.session import Markets, Session, read_object, texts_of
from tardis_machine.sources.simulator.deribit.feed import DeribitFeed, notification

MAX_CHANNELS_PER_CALL = 500
MIN_HEARTBEAT_SECONDS = 10
LOGIN_SECONDS = 900

_PLAYED = re.compile(r"(?P<kind>book|trades|ticker)\.(?P<symbol>[^.]+)\.(?P<interval>raw|100ms)")
_SILENT = re.compile(
    r"(?:perpetual|quote|estimated_expiration_price|deribit_price_index|deribit_price_ranking|"
    r"deribit_volatility_index|markprice\.options|instrument\.state|platform_state)(?:\..+)?"
)
"""Channels that exist and in which nothing happens here."""

Failure = tuple[int, str]
"""Code and text of an error."""

_METHOD_NOT_FOUND: Failure = (-32601, "Method not found")
_INVALID_PARAMS: Failure = (-32602, "Invalid params")
_PARSE_ERROR: Failure = (-32700, "Parse error")
_INVALID_CREDENTIALS: Failure = (13004, "invalid_credentials")
_TOO_MANY_REQUESTS: Failure = (10028, "too_many_requests")
_UNAUTHORIZED: Failure = (13009, "unauthorized")
_RAW_NEEDS_LOGIN: Failure = (13778, "raw_subscriptions_not_available_for_unauthorized")

_HEARTBEAT = {"jsonrpc": "2.0", "method": "heartbeat", "params": {"type": "heartbeat"}}
_TEST_REQUEST = {"jsonrpc": "2.0", "method": "heartbeat", "params": {"type": "test_request"}}


class DeribitSession(Session[DeribitFeed]):
    """Answers calls; a client that leaves a test request unanswered is hung up on."""

    numbered_book: ClassVar[str | None] = "book"

    def __init__(
        self, markets: Markets[DeribitFeed], connection: Connection, clock: MarketClock
    ) -> None:
        super().__init__(markets, connection, clock)
        self._is_logged_in = False
        self._heartbeat_seconds: float | None = None
        self._beat_seconds = 0.0
        self._is_answer_due = False

    def receive(self, text: str) -> None:
        """Answer a call."""
        self._is_answer_due = False
        call = read_object(text)
        if call is None:
            self._fail(None, _PARSE_ERROR)
            return
        params = call.get("params")
        known = params if isinstance(params, dict) else {}
        self._call(str(call.get("method")), known, call.get("id"))

    def refuse(self, text: str, retry_after_seconds: int) -> None:
        """Answer a call with the error of clients that call too often."""
        call = read_object(text) or {}
        self._fail(call.get("id"), _TOO_MANY_REQUESTS, wait=str(retry_after_seconds))

    def _call(self, method: str, params: dict[str, Any], call_id: Any) -> None:
        simple = {"public/test": {"version": "1.2.26"}, "public/get_time": self.clock.us() // 1000}
        access, _, name = method.partition("/")
        if method in simple:
            self._answer(call_id, simple[method])
        elif method == "public/set_heartbeat":
            self._set_heartbeat(params.get("interval"), call_id)
        elif method == "public/disable_heartbeat":
            self._heartbeat_seconds = None
            self._answer(call_id, "ok")
        elif method == "public/auth":
            self._log_in(params, call_id)
        elif access in ("public", "private") and name in ("subscribe", "unsubscribe"):
            self._change(access, name, params, call_id)
        elif access in ("public", "private") and name == "unsubscribe_all":
            self.leave()
            self._answer(call_id, "ok")
        else:
            self._fail(call_id, _METHOD_NOT_FOUND)

    def _set_heartbeat(self, interval: Any, call_id: Any) -> None:
        if not isinstance(interval, int | float) or interval < MIN_HEARTBEAT_SECONDS:
            reason = f"must be at least {MIN_HEARTBEAT_SECONDS}"
            self._fail(call_id, _INVALID_PARAMS, param="interval", reason=reason)
            return
        self._heartbeat_seconds = interval
        self._beat_seconds = self.clock.passed_seconds()
        self._answer(call_id, "ok")

    def _log_in(self, params: dict[str, Any], call_id: Any) -> None:
        if not params.get("client_id") or not params.get("client_secret"):
            self._fail(call_id, _INVALID_CREDENTIALS)
            return
        self._is_logged_in = True
        self._answer(
            call_id,
            {
                "token_type": "bearer",
                "scope": "connection mainaccount",
                "refresh_token": "simulated",
                "access_token": "simulated",
                "expires_in": LOGIN_SECONDS,
            },
        )

    def _change(self, access: str, name: str, params: dict[str, Any], call_id: Any) -> None:
        channels = texts_of(params.get("channels"))
        if channels is None or len(channels) > MAX_CHANNELS_PER_CALL:
            self._fail(call_id, _INVALID_PARAMS, param="channels", reason="wrong format")
        elif access == "private" and not self._is_logged_in:
            self._fail(call_id, _UNAUTHORIZED)
        elif name == "unsubscribe":
            self._answer(call_id, [channel for channel in channels if self.unsubscribe(channel)])
        elif not all(_PLAYED.fullmatch(name) or _SILENT.fullmatch(name) for name in channels):
            self._fail(call_id, _INVALID_PARAMS, param="channels", reason="wrong channel")
        elif not self._is_logged_in and any(name.endswith(".raw") for name in channels):
            self._fail(call_id, _RAW_NEEDS_LOGIN)
        else:
            self._subscribe(channels, call_id)

    def _subscribe(self, channels: list[str], call_id: Any) -> None:
        """Subscribe the instruments that exist; the answer leaves out the others, as there."""
        found = {name: _PLAYED.fullmatch(name) for name in channels}
        known = {
            name: match
            for name, match in found.items()
            if match is None or match["symbol"] in self.markets
        }
        self._answer(call_id, list(known))
        for name, match in known.items():
            if match is not None and not self.has(name):
                self._start(name, match["kind"], match["symbol"])

    def _start(self, name: str, kind: str, symbol: str) -> None:
        """Send the book or ticker as it is, and what happens from now on."""
        market, wrap = self.markets[symbol], partial(notification, name)
        if kind == "book":
            self.connection.publish(name, wrap(market.feed.book_snapshot()))
        elif kind == "ticker" and market.feed.slow_fields:
            self.connection.publish(name, wrap(market.feed.ticker()))
        self.subscribe(name, market, kind, wrap)

    def on_time(self) -> None:
        """Send heartbeats and test requests; hang up when the last one was not answered."""
        interval, now = self._heartbeat_seconds, self.clock.passed_seconds()
        if interval is None or now - self._beat_seconds < interval:
            return
        if self._is_answer_due:
            self.connection.close(1000, "")
            return
        self._beat_seconds = now
        self._is_answer_due = True
        self.send(_HEARTBEAT)
        self.send(_TEST_REQUEST)

    def _answer(self, call_id: Any, result: Any) -> None:
        now_us = self.clock.us()
        times = {"usIn": now_us, "usOut": now_us, "usDiff": 0, "testnet": False}
        self.send({"jsonrpc": "2.0", "id": call_id, "result": result, **times})

    def _fail(self, call_id: Any, failure: Failure, **data: str) -> None:
        error = {"message": failure[1], "code": failure[0]}
        if data:
            error["data"] = data
        self.send({"jsonrpc": "2.0", "id": call_id, "error": error, "testnet": False})
