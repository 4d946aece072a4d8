"""Instruments: what the symbols of events stand for."""

from tardis_machine.lake.tables.columns import (
    Column,
    ColumnType,
    Table,
    count,
    number,
    required,
    text,
    time,
)

INSTRUMENTS = Table(
    name="silver.instruments",
    meaning=(
        "What the symbols of exchanges stand for, by rules per exchange, or by the data API with "
        "`lake instruments`. A row holds until the next one of its symbol."
    ),
    columns=(
        *required(
            text("exchange", "Exchange id, for example binance-futures."),
            text("symbol", "Instrument id as the exchange publishes it."),
            time("valid_from", "Since when the row holds; 1970: always."),
        ),
        text("base", "What is bought and sold, for example BTC."),
        text("quote", "Currency of prices; of the strike, for options."),
        text("kind", "spot, perpetual, future or option."),
        Column("is_inverse", ColumnType.BOOLEAN, "True: contracts are worth units of quote."),
        number(
            "contract_size", "Worth of an amount of 1; null: not known.", "base; quote if inverse"
        ),
        count("multiplier", "Units of base that a price is for: 1000 for 1000SHIB."),
        time("expiry_ts", "When it expires; null: never."),
        text("source", "`rule` or `data-api`; null: rule."),
    ),
    key=("exchange", "symbol", "valid_from"),
    partition_by=(),
)
