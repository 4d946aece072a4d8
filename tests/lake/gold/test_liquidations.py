"""Forced orders to sums per minute."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tardis_machine.lake.gold.liquidations import finished_liquidations, minute_liquidations
from tardis_machine.lake.tables.silver import LIQUIDATIONS
from tests.lake.frames import event, frame, values

pytestmark = pytest.mark.spark


def order(seconds: float, side: str, price: float, amount: float, **columns: Any) -> dict[str, Any]:
    return event(seconds, side=side) | {"price": price, "amount": amount} | columns


def with_worth(orders: DataFrame) -> DataFrame:
    return orders.withColumn("worth", F.col("price") * F.col("amount"))


def test_orders_of_a_minute_are_summed_by_side(spark: SparkSession) -> None:
    orders = [
        order(1, "buy", 100, 2),
        order(59.999, "buy", 110, 1),
        order(30, "sell", 90, 3),
        order(31, "unknown", 1000, 1000),
        order(60, "sell", 80, 1),
        order(1, "sell", 70, 1, symbol="ETHUSD"),
        order(1, "sell", 70, 1, capture="live:a"),
    ]
    rows = frame(spark, LIQUIDATIONS, orders).transform(with_worth)
    minutes = rows.transform(minute_liquidations)
    columns = ("minute", "symbol", "buys", "sells", "buy_volume", "sell_volume")
    notionals = ("buy_notional", "sell_notional")
    assert values(minutes, "capture", *columns, *notionals) == [
        ("history", 0.0, "ETHUSD", 0, 1, 0.0, 1.0, 0.0, 70.0),
        ("history", 0.0, "XBTUSD", 2, 1, 3.0, 3.0, 310.0, 270.0),
        ("history", 60.0, "XBTUSD", 0, 1, 0.0, 1.0, 0.0, 80.0),
        ("live:a", 0.0, "XBTUSD", 0, 1, 0.0, 1.0, 0.0, 70.0),
    ]
    finished = minutes.where("capture = 'live:a'").transform(finished_liquidations)
    assert [str(row.date) for row in finished.collect()] == ["2024-03-01"]
