"""Phemex mappers: both families of channels give the same records."""

from typing import ClassVar

from tardis_machine.exchanges.level_texts import TextLevels, pair_levels
from tardis_machine.exchanges.levels import book_change
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.exchanges.venues.phemex.messages import (
    PACK_UPDATE,
    DecimalBook,
    DecimalTrades,
    PackMessage,
    ScaledBook,
    ScaledTickerMessage,
    ScaledTrades,
    TradeItem,
    decode_rows,
)
from tardis_machine.model.errors import MappingError
from tardis_machine.model.records import BookChange, BookLevel, Trade
from tardis_machine.model.time import ns_text

EXCHANGE = "phemex"

EXCLUDED = "sOLUSDT"
"""A spot market whose symbol in upper case would be that of the perpetual SOLUSDT."""

SPOT_SCALE = 1e8
CONTRACT_PRICE_SCALE = 1e4
RATE_SCALE = 1e8
UNSCALED = (1.0, 1.0)


class TradeMapper(Mapper):
    """`trades` and `trades_p`; what is sent on subscribe is a backlog of old trades."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle both channels."""
        if tag == "trades_p":
            return DecimalTrades, self.map_decimal
        return (ScaledTrades, self.map_scaled) if tag == "trades" else None

    def map_scaled(self, message: ScaledTrades, local: str, emit: Emit) -> None:
        """Emit new trades whose numbers are scaled integers."""
        if message.type == "incremental" and message.symbol != EXCLUDED:
            emit_trades(message.symbol, message.trades, scales_of(message.symbol), local, emit)

    def map_decimal(self, message: DecimalTrades, local: str, emit: Emit) -> None:
        """Emit new trades whose numbers are text."""
        if message.type == "incremental" and message.symbol != EXCLUDED:
            emit_trades(message.symbol, message.trades_p, UNSCALED, local, emit)


class BookMapper(Mapper):
    """`book` and `orderbook_p`."""

    is_stateless = True
    decimal_books: ClassVar[TextLevels] = pair_levels(
        DecimalBook, "orderbook_p", bids="bids", asks="asks"
    )

    def handler(self, tag: str) -> Handler | None:
        """Handle both channels."""
        if tag == "orderbook_p":
            return self.decimal_books, self.map_decimal
        return (ScaledBook, self.map_scaled) if tag == "book" else None

    def map_scaled(self, message: ScaledBook, local: str, emit: Emit) -> None:
        """Emit a change whose numbers are scaled integers."""
        if message.symbol == EXCLUDED:
            return
        price, amount = scales_of(message.symbol)
        sides = message.book
        emit(
            BookChange(
                symbol=message.symbol.upper(),
                exchange=EXCHANGE,
                is_snapshot=message.type == "snapshot",
                bids=[BookLevel(bid.price / price, bid.amount / amount) for bid in sides.bids],
                asks=[BookLevel(ask.price / price, ask.amount / amount) for ask in sides.asks],
                timestamp=ns_text(message.timestamp),
                local_timestamp=local,
            )
        )

    def map_decimal(self, message: DecimalBook, local: str, emit: Emit) -> None:
        """Emit a change whose numbers are text."""
        if message.symbol == EXCLUDED:
            return
        sides = message.orderbook_p
        emit(
            book_change(
                message.symbol.upper(),
                EXCHANGE,
                sides.bids,
                sides.asks,
                ns_text(message.timestamp),
                local,
                is_snapshot=message.type == "snapshot",
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """`market24h`, and the `perp_market24h_pack_p` of all newer perpetuals."""

    def handler(self, tag: str) -> Handler | None:
        """Handle both channels."""
        if tag == "method":
            return PackMessage, self.map_pack
        return (ScaledTickerMessage, self.map_scaled) if tag == "market24h" else None

    def map_scaled(self, message: ScaledTickerMessage, local: str, emit: Emit) -> None:
        """Emit the ticker if a value changed."""
        ticker = message.market24h
        if ticker.symbol == EXCLUDED:
            return
        self._tickers.change(
            ticker.symbol,
            ns_text(message.timestamp),
            local,
            emit,
            last_price=scaled(ticker.close, CONTRACT_PRICE_SCALE),
            open_interest=ticker.open_interest,
            index_price=scaled(ticker.index_price, CONTRACT_PRICE_SCALE),
            mark_price=scaled(ticker.mark_price, CONTRACT_PRICE_SCALE),
            funding_rate=scaled(ticker.funding_rate, RATE_SCALE),
            predicted_funding_rate=scaled(ticker.pred_funding_rate, RATE_SCALE),
        )

    def map_pack(self, message: PackMessage, local: str, emit: Emit) -> None:
        """Emit a ticker for each perpetual whose values changed."""
        if message.method != PACK_UPDATE:
            return
        if message.timestamp is None:
            raise MappingError(f"{PACK_UPDATE} has no timestamp.")
        timestamp = ns_text(message.timestamp)
        for row in decode_rows(message.data):
            if row.symbol != EXCLUDED:
                self._tickers.change(
                    row.symbol,
                    timestamp,
                    local,
                    emit,
                    last_price=row.last,
                    open_interest=row.open_interest,
                    index_price=row.index,
                    mark_price=row.mark,
                    funding_rate=row.funding_rate,
                    predicted_funding_rate=row.predicted_funding_rate,
                )


def scales_of(symbol: str) -> tuple[float, float]:
    """Return what prices and quantities of a symbol are divided by."""
    return (SPOT_SCALE, SPOT_SCALE) if symbol.startswith("s") else (CONTRACT_PRICE_SCALE, 1.0)


def scaled(value: float | None, scale: float) -> float | None:
    """Return what a scaled integer stands for; not every contract has every value."""
    return None if value is None else value / scale


def emit_trades(
    symbol: str, items: list[TradeItem], scales: tuple[float, float], local: str, emit: Emit
) -> None:
    """Emit trades of one symbol."""
    symbol, (price_scale, amount_scale) = symbol.upper(), scales
    for item in items:
        emit(
            Trade(
                symbol=symbol,
                exchange=EXCHANGE,
                price=item.price / price_scale,
                amount=item.amount / amount_scale,
                side="buy" if item.side == "Buy" else "sell",
                timestamp=ns_text(item.time_ns),
                local_timestamp=local,
            )
        )
