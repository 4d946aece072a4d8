"""The catalog: order, channels, data types and switch dates of every exchange."""

from tardis_machine.exchanges.catalog import CATALOG
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.model.data_types import PLAIN_TYPES
from tardis_machine.model.time import parse_us


def test_registry_keeps_the_order_of_the_catalog() -> None:
    names = list(REGISTRY)
    assert names == list(CATALOG)
    assert len(names) == 64
    assert names[:3] == ["aster", "aster-futures", "bitmex"]
    assert names[-1] == "polymarket"


def test_every_exchange_has_channels_and_types_in_mapper_order() -> None:
    for exchange in REGISTRY.values():
        assert exchange.channels
        assert exchange.data_types[:2] == ("trade", "book_change")
        assert list(exchange.data_types) == [t for t in PLAIN_TYPES if t in exchange.data_types]
        assert set(exchange.switches_us) <= set(exchange.data_types)


def test_channels_keep_repetitions_that_error_texts_show() -> None:
    assert REGISTRY["bybit"].channels.count("liquidation") == 3
    assert "spot@public.aggre.deals.v3.api.pb@10ms" in REGISTRY["mexc"].channels


def test_switch_dates_belong_to_data_types() -> None:
    bybit = REGISTRY["bybit"].switches_us
    assert bybit["trade"] == (parse_us("2023-04-05T00:00:00.000Z"),)
    assert len(bybit["liquidation"]) == 2
    assert "book_ticker" not in bybit
    woo = REGISTRY["woo-x"].switches_us
    assert woo["book_change"] == (parse_us("2026-06-29T22:02:00.000Z"),)


def test_new_wire_format_changes_what_is_mapped() -> None:
    for exchange in REGISTRY.values():
        changes = {us for switches_us in exchange.switches_us.values() for us in switches_us}
        assert set(exchange.format_switches_us) <= changes
    assert REGISTRY["okcoin"].format_switches_us == (parse_us("2023-04-27T00:00:00.000Z"),)
