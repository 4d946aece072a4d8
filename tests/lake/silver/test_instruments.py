"""`silver.instruments`: by rule when a symbol comes, by the data API when it is asked."""

from pathlib import Path

import msgspec
import pytest

from tardis_machine.cli import main
from tardis_machine.exchanges.instruments.metadata import InstrumentInfo
from tardis_machine.lake.instruments import Symbols, collect_periods
from tardis_machine.lake.silver.instruments import replace_instruments
from tardis_machine.lake.store.store import Store
from tests.lake.events import encoded, trade
from tests.lake.lakes import Lake

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("restored_logging")]

SHIB = {"exchange": "okex-swap", "symbol": "SHIB-USDT-SWAP"}
INFOS = [
    {
        "id": "shib-usdt-swap",
        "baseCurrency": "SHIB",
        "quoteCurrency": "USDT",
        "type": "perpetual",
        "inverse": False,
        "contractMultiplier": 1_000_000,
        "changes": [{"until": "2024-03-01T12:01:00.000Z", "contractMultiplier": 1000}],
    },
    {"id": "OTHER", "baseCurrency": "A", "quoteCurrency": "B", "type": "spot"},
]


async def fetch(exchange: str) -> list[InstrumentInfo]:
    return msgspec.convert(INFOS, list[InstrumentInfo]) if exchange == "okex-swap" else []


async def test_data_api_takes_the_place_of_rules_and_keeps_it(lake: Lake) -> None:
    lake.deliver(encoded([trade(1, 2, 3, **SHIB), trade(61, 2, 3, **SHIB), trade(1)]))
    columns = ("symbol", "contract_size", "source")
    by_rule = [("SHIB-USDT-SWAP", None, "rule"), ("XBTUSD", 1.0, "rule")]
    assert lake.values("silver.instruments", *columns) == by_rule

    said: list[str] = []
    symbols = Symbols.of(lake.root)
    periods = await collect_periods(symbols, ("bitmex", "okex-swap"), fetch, said.append)
    assert said[1] == "okex-swap: the data API knows 1 of 1 symbols"
    store = Store(lake.spark, lake.root)
    assert replace_instruments(store, periods) == {"insert": 1, "update": 1}
    assert replace_instruments(store, periods) == {}
    told = [
        ("SHIB-USDT-SWAP", 1000.0, "data-api"),
        ("SHIB-USDT-SWAP", 1_000_000.0, "data-api"),
        ("XBTUSD", 1.0, "rule"),
    ]
    assert lake.values("silver.instruments", *columns) == told
    # The rule does not come back with the next run.
    lake.deliver(encoded([trade(2, 2, 3, **SHIB)]))
    assert lake.values("silver.instruments", *columns) == told
    lake.build()
    bars = lake.values("gold.bars", "interval", "symbol", "open_ts", "notional")
    worth = [row[3] for row in bars if row[:2] == ("1m", "SHIB-USDT-SWAP")]
    assert worth == [2 * 6.0 * 1000, 6.0 * 1_000_000]


@pytest.mark.parametrize(
    ("words", "problem"), [([], "There is no lake at"), (["--exchange", "bitmx"], "lake at")]
)
def test_command_without_a_lake_is_refused(
    tmp_path: Path, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lake", "instruments", "--lake", str(tmp_path / "none"), *words], {}) == 2
    assert problem in capsys.readouterr().err
