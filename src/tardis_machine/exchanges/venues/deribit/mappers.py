"""Deribit notifications, and the mappers that read them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Literal

from msgspec import Struct

from tardis_machine.exchanges.chains import NumberedBookMapper
from tardis_machine.exchanges.decoding.symbols import upper_symbols
from tardis_machine.exchanges.level_texts import TextLevels, action_levels
from tardis_machine.exchanges.levels import book_change
from tardis_machine.exchanges.numbers import LooseNumber, nonzero, optional
from tardis_machine.exchanges.spec import Emit, Handler, Mapper
from tardis_machine.exchanges.tickers import TickerMapper
from tardis_machine.model.makers import new_trade
from tardis_machine.model.records import (
    BookLevel,
    BookTicker,
    Liquidation,
    OptionSummary,
    OptionType,
    Side,
)
from tardis_machine.model.time import DAY_US, days_from_civil, ms_text

EXCHANGE = "deribit"

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")

EXPIRY_HOUR_MS = 8 * 3_600_000
"""Options expire at 08:00 UTC."""

OPPOSITE: dict[str, Side] = {"buy": "sell", "sell": "buy"}


class ChannelParams(Struct, gc=False):
    """The part of the parameters that tells channels apart."""

    channel: str | None = None


class Notification(Struct, gc=False):
    """Any message; answers to requests have no parameters."""

    params: ChannelParams | None = None


class TradeItem(Struct, gc=False):
    """One trade; `liquidation` says which side of it was liquidated: M, T or MT."""

    instrument_name: str
    trade_id: str | int
    price: float
    amount: float
    direction: Literal["buy", "sell"]
    timestamp: float
    liquidation: str | None = None


class TradeParams(Struct, gc=False):
    """Parameters of a `trades` message."""

    data: list[TradeItem]


class TradeMessage(Struct, gc=False):
    """A `trades` message."""

    params: TradeParams


class LevelChange(Struct, gc=False, array_like=True):
    """One changed level: new, change or delete."""

    action: str
    price: float
    amount: float = 0.0


class BookData(Struct, gc=False):
    """Changed levels of one instrument."""

    instrument_name: str
    timestamp: float
    bids: list[LevelChange] = []
    asks: list[LevelChange] = []
    type: str | None = None
    change_id: int | None = None
    prev_change_id: int | None = None


class BookParams(Struct, gc=False):
    """Parameters of a `book` message."""

    data: BookData


class BookMessage(Struct, gc=False):
    """A `book` message."""

    params: BookParams


class Greeks(Struct, gc=False):
    """Sensitivities of an option."""

    delta: LooseNumber = None
    gamma: LooseNumber = None
    vega: LooseNumber = None
    theta: LooseNumber = None
    rho: LooseNumber = None


class TickerData(Struct, gc=False):
    """State of one instrument; futures and options fill different fields."""

    instrument_name: str
    timestamp: float
    best_bid_price: LooseNumber = None
    best_bid_amount: LooseNumber = None
    best_ask_price: LooseNumber = None
    best_ask_amount: LooseNumber = None
    last_price: float | None = None
    mark_price: float | None = None
    index_price: float | None = None
    open_interest: float | None = None
    current_funding: float | None = None
    bid_iv: LooseNumber = None
    ask_iv: LooseNumber = None
    mark_iv: LooseNumber = None
    underlying_price: LooseNumber = None
    underlying_index: str = ""
    greeks: Greeks | None = None
    combo_state: str | None = None


class TickerParams(Struct, gc=False):
    """Parameters of a `ticker` message."""

    data: TickerData


class TickerMessage(Struct, gc=False):
    """A `ticker` message."""

    params: TickerParams


class TradeMapper(Mapper):
    """`trades`."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag.startswith("trades") else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit one trade per item."""
        for item in message.params.data:
            emit(
                new_trade(
                    upper_symbols[item.instrument_name],
                    EXCHANGE,
                    str(item.trade_id),
                    item.price,
                    item.amount,
                    item.direction,
                    ms_text(item.timestamp),
                    local,
                )
            )


class LiquidationMapper(Mapper):
    """`trades` again: those in which a position was liquidated."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle trades."""
        return (TradeMessage, self.map) if tag.startswith("trades") else None

    def map(self, message: TradeMessage, local: str, emit: Emit) -> None:
        """Emit one liquidation per marked trade, with the side of the liquidated order."""
        for item in message.params.data:
            if item.liquidation is None:
                continue
            is_taker = item.liquidation == "T"
            emit(
                Liquidation(
                    symbol=item.instrument_name.upper(),
                    exchange=EXCHANGE,
                    id=str(item.trade_id),
                    price=item.price,
                    amount=item.amount,
                    side=item.direction if is_taker else OPPOSITE[item.direction],
                    timestamp=ms_text(item.timestamp),
                    local_timestamp=local,
                )
            )


class BookMapper(NumberedBookMapper):
    """`book`."""

    books: ClassVar[TextLevels] = action_levels(
        BookMessage, "params.data", bids="bids", asks="asks"
    )

    def handler(self, tag: str) -> Handler | None:
        """Handle books."""
        return (self.books, self.map) if tag.startswith("book") else None

    def map(self, message: BookMessage, local: str, emit: Emit) -> None:
        """Emit changed levels; a message without a predecessor resets the book."""
        data = message.params.data
        is_snapshot = data.type == "snapshot" or not data.prev_change_id
        if self.checks_sequence and not self.follows(
            data.instrument_name, data.prev_change_id, data.change_id, is_snapshot=is_snapshot
        ):
            return
        emit(
            book_change(
                upper_symbols[data.instrument_name],
                EXCHANGE,
                data.bids,
                data.asks,
                ms_text(data.timestamp),
                local,
                is_snapshot=is_snapshot,
                read=changed_levels,
            )
        )


class BookTickerMapper(Mapper):
    """`ticker`, for its best levels."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (TickerMessage, self.map) if tag.startswith("ticker") else None

    def map(self, message: TickerMessage, local: str, emit: Emit) -> None:
        """Emit the best bid and ask."""
        data = message.params.data
        emit(
            BookTicker(
                symbol=data.instrument_name.upper(),
                exchange=EXCHANGE,
                ask_amount=nonzero(data.best_ask_amount),
                ask_price=nonzero(data.best_ask_price),
                bid_price=nonzero(data.best_bid_price),
                bid_amount=nonzero(data.best_bid_amount),
                timestamp=ms_text(data.timestamp),
                local_timestamp=local,
            )
        )


class DerivativeTickerMapper(TickerMapper):
    """`ticker` of everything but single options."""

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (TickerMessage, self.map) if tag.startswith("ticker") else None

    def map(self, message: TickerMessage, local: str, emit: Emit) -> None:
        """Emit the ticker if a value changed."""
        data = message.params.data
        if data.greeks is not None and data.combo_state != "active":
            return
        self._tickers.change(
            data.instrument_name,
            ms_text(data.timestamp),
            local,
            emit,
            # The continuous rate, not the one of the last eight hours.
            funding_rate=data.current_funding,
            index_price=data.index_price,
            mark_price=data.mark_price,
            open_interest=data.open_interest,
            last_price=data.last_price,
        )


class OptionSummaryMapper(Mapper):
    """`ticker` of options."""

    is_stateless = True

    def handler(self, tag: str) -> Handler | None:
        """Handle tickers."""
        return (TickerMessage, self.map) if tag.startswith("ticker") else None

    def map(self, message: TickerMessage, local: str, emit: Emit) -> None:
        """Emit quotes, greeks and underlying of one option."""
        data = message.params.data
        if not data.instrument_name.endswith(("-P", "-C")):
            return
        option_type, strike_price, expiration_date = parse_option(data.instrument_name)
        greeks = data.greeks or Greeks()
        emit(
            OptionSummary(
                symbol=data.instrument_name.upper(),
                exchange=EXCHANGE,
                option_type=option_type,
                strike_price=strike_price,
                expiration_date=expiration_date,
                best_bid_price=nonzero(data.best_bid_price),
                best_bid_amount=nonzero(data.best_bid_amount),
                best_bid_iv=nonzero(data.bid_iv),
                best_ask_price=nonzero(data.best_ask_price),
                best_ask_amount=nonzero(data.best_ask_amount),
                best_ask_iv=nonzero(data.ask_iv),
                last_price=nonzero(data.last_price),
                open_interest=optional(data.open_interest),
                mark_price=optional(data.mark_price),
                mark_iv=optional(data.mark_iv),
                delta=optional(greeks.delta),
                gamma=optional(greeks.gamma),
                vega=optional(greeks.vega),
                theta=optional(greeks.theta),
                rho=optional(greeks.rho),
                underlying_price=optional(data.underlying_price),
                underlying_index=data.underlying_index,
                timestamp=ms_text(data.timestamp),
                local_timestamp=local,
            )
        )


def changed_levels(changes: Sequence[LevelChange]) -> list[BookLevel]:
    """Return the levels; deleted ones have no amount."""
    if not changes:
        return []
    return [
        BookLevel(change.price, 0.0 if change.action == "delete" else change.amount)
        for change in changes
    ]


@lru_cache(maxsize=8192)
def parse_option(name: str) -> tuple[OptionType, float, str]:
    """Read type, strike and expiration from `MATIC_USDC-9MAR24-1d02-C`; `d` is a decimal point."""
    _, date, strike, letter = name.upper().split("-")
    month = MONTHS.index(date[-5:-2]) + 1
    days = days_from_civil(2000 + int(date[-2:]), month, int(date[:-5]))
    expiration_date = ms_text(days * (DAY_US // 1000) + EXPIRY_HOUR_MS)
    return "put" if letter == "P" else "call", float(strike.replace("D", ".")), expiration_date
