"""Instruments of the data API: what is taken from it, and what rules know better."""

from typing import Any

import msgspec
import pytest

from tardis_machine.exchanges.instruments.metadata import InstrumentInfo, periods_of
from tardis_machine.model.time import parse_us

SHIB = {
    "id": "SHIB-USDT-SWAP",
    "exchange": "okex-swap",
    "baseCurrency": "SHIB",
    "quoteCurrency": "USDT",
    "type": "perpetual",
    "active": True,
    "availableSince": "2021-05-12T00:00:00.000Z",
    "priceIncrement": 1e-9,
    "inverse": False,
    "contractMultiplier": 1_000_000,
}


def info(**facts: Any) -> InstrumentInfo:
    return msgspec.convert(SHIB | facts, InstrumentInfo)


def test_contract_size_that_no_rule_knows_is_taken() -> None:
    ((since_us, found),) = periods_of("okex-swap", info())
    assert (since_us, found.base, found.quote, str(found.kind)) == (0, "SHIB", "USDT", "perpetual")
    assert (found.contract_size, found.is_inverse, found.multiplier) == (1e6, False, 1)


def test_contract_size_has_a_row_for_each_of_its_times() -> None:
    changes = [
        {"until": "2023-02-01T00:00:00.000Z", "contractMultiplier": 100},
        {"until": "2022-01-01T00:00:00.000Z", "contractMultiplier": 10},
        {"until": "2022-06-01T00:00:00.000Z", "priceIncrement": 0.5},
    ]
    found = periods_of("okex-swap", info(changes=changes))
    times = [0, parse_us("2022-01-01T00:00:00.000Z"), parse_us("2023-02-01T00:00:00.000Z")]
    assert [since_us for since_us, _ in found] == times
    assert [each.contract_size for _, each in found] == [10.0, 100.0, 1e6]


@pytest.mark.parametrize(
    ("exchange", "facts", "size"),
    [
        # Amounts are in USD, though a contract has ten.
        ("deribit", {"id": "BTC-PERPETUAL", "inverse": True, "contractMultiplier": 10}, 1.0),
        # Worth units of a third currency.
        ("bitmex", {"id": "ETHUSD", "quanto": True, "contractMultiplier": 1e-6}, None),
        ("nowhere", {"id": "A-B", "type": "spot", "contractMultiplier": None}, 1.0),
        ("nowhere", {"id": "A-B", "contractMultiplier": None}, None),
    ],
)
def test_amounts_are_worth_what_can_be_told(
    exchange: str, facts: dict[str, Any], size: float | None
) -> None:
    ((_, found),) = periods_of(exchange, info(**facts))
    assert found.contract_size == size


def test_multiplied_base_and_expiry_are_read() -> None:
    facts = {"id": "1000shibusdt", "baseCurrency": "1000SHIB", "expiry": "2024-03-29T08:00:00.000Z"}
    ((_, found),) = periods_of("binance-futures", info(**facts, type="future"))
    assert (found.base, found.multiplier) == ("SHIB", 1000)
    assert found.expiry_us == parse_us("2024-03-29T08:00:00.000Z")


def test_kind_of_another_version_is_left_out() -> None:
    assert periods_of("okex-swap", info(type="combo")) == []
