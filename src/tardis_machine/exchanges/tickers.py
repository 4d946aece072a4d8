"""The per-symbol state behind derivative tickers, shared by every venue."""

from typing import Any

from tardis_machine.exchanges.spec import Emit, Mapper, drop_symbol
from tardis_machine.model.records import DerivativeTicker


class PendingTicker:
    """What is known about one symbol, and whether it changed since the last emission."""

    __slots__ = ("_changed", "_exchange", "_symbol", "_timestamp", "_values")

    def __init__(self, exchange: str, symbol: str) -> None:
        self._exchange = exchange
        self._symbol = symbol
        self._values: dict[str, float | str] = {}
        self._timestamp = ""
        self._changed = False

    def update(self, **fields: float | str | None) -> None:
        """Remember new values; None and equal ones are no change."""
        values = self._values
        for name, value in fields.items():
            if value is not None and values.get(name) != value:
                values[name] = value
                self._changed = True

    def advance(self, timestamp: str) -> None:
        """Move the ticker's own time forward; an older one is ignored."""
        # Without the final Z, texts of three and of six digits compare by time.
        if timestamp[:-1] >= self._timestamp[:-1]:
            self._timestamp = timestamp

    def take(self, local: str) -> DerivativeTicker | None:
        """Return the full ticker if anything changed since it was last taken."""
        if not self._changed:
            return None
        self._changed = False
        # Remembered, so that the ticker's time does not go back to an older one of the exchange.
        self._timestamp = self._timestamp or local
        values: dict[str, Any] = self._values
        return DerivativeTicker(
            symbol=self._symbol,
            exchange=self._exchange,
            timestamp=self._timestamp,
            local_timestamp=local,
            **values,
        )


class PendingTickers:
    """The tickers of one connection, by symbol."""

    def __init__(self, exchange: str) -> None:
        self._exchange = exchange
        self._tickers: dict[str, PendingTicker] = {}

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._tickers

    def forget(self, symbol: str) -> None:
        """Drop what is known of a symbol, however it is written."""
        drop_symbol(self._tickers, symbol)

    def of(self, symbol: str) -> PendingTicker:
        """Return the state of a symbol, new if it was not seen before."""
        ticker = self._tickers.get(symbol)
        if ticker is None:
            ticker = self._tickers[symbol] = PendingTicker(self._exchange, symbol)
        return ticker

    def change(
        self,
        symbol: str,
        timestamp: str | None,
        local: str,
        emit: Emit,
        **fields: float | str | None,
    ) -> None:
        """Remember new values of a symbol, and emit its full ticker if any of them is a change.

        Args:
            symbol: whose values they are.
            timestamp: the exchange's time, None when the message has none.
            local: when the message arrived.
            emit: takes the ticker.
            fields: values by the field names of `DerivativeTicker`; None leaves a value as it is.
        """
        ticker = self.of(symbol)
        ticker.update(**fields)
        if timestamp is not None:
            ticker.advance(timestamp)
        record = ticker.take(local)
        if record is not None:
            emit(record)


class TickerMapper(Mapper):
    """A mapper that remembers the tickers of a connection."""

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._tickers = PendingTickers(exchange)

    def forget(self, symbol: str) -> None:
        """Drop the ticker of a symbol too."""
        super().forget(symbol)
        self._tickers.forget(symbol)
