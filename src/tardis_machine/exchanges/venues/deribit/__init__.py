"""Deribit: JSON-RPC notifications whose channel is `<name>.<instrument>.<interval>`."""

from functools import partial

from tardis_machine.exchanges.spec import Venue, WireFormat, always
from tardis_machine.exchanges.tags import StartTag
from tardis_machine.exchanges.venues.deribit.feed import (
    FEED,
    filter_symbol,
    locate,
    read_subscribe,
)
from tardis_machine.exchanges.venues.deribit.mappers import (
    EXCHANGE,
    BookMapper,
    BookTickerMapper,
    DerivativeTickerMapper,
    LiquidationMapper,
    Notification,
    OptionSummaryMapper,
    TradeMapper,
)

_always = partial(always, convert=filter_symbol)

FORMAT = WireFormat(
    tag=StartTag(
        b'{"jsonrpc":"2.0","method":"subscription","params":{"channel":"',
        Notification,
        lambda message: message.params and message.params.channel,
    ),
    locate=locate,
    read_subscribe=read_subscribe,
)

VENUES = {
    EXCHANGE: Venue(
        formats=(FORMAT,),
        versions={
            "trade": _always(TradeMapper, "trades"),
            "book_change": _always(BookMapper, "book"),
            "derivative_ticker": _always(DerivativeTickerMapper, "ticker"),
            "liquidation": _always(LiquidationMapper, "trades"),
            "option_summary": _always(OptionSummaryMapper, "ticker"),
            "book_ticker": _always(BookTickerMapper, "ticker"),
        },
        feed=FEED,
    )
}
