"""Which variables of the environment concern exchanges."""

from tardis_machine.app.settings.exchange_variables import with_exchange_variables
from tardis_machine.sources.live.settings import LiveSettings

ENVIRON = {
    "WSS_URL_BINANCE_FUTURES": "wss://elsewhere",
    "OKX_API_KEY": "k",
    "DERIBIT_API_CLIENT_ID": "id",
    "COINBASE_API_SECRET": "s",
    "BINANCE_REQUEST_WEIGHT_LIMIT": "500",
    "WSS_URL_NOBODY": "wss://nowhere",
    "HOME": "/root",
}


def test_only_variables_of_exchanges_are_taken() -> None:
    taken = with_exchange_variables(LiveSettings(), ENVIRON).exchange_environment
    assert set(taken) == set(ENVIRON) - {"HOME", "WSS_URL_NOBODY"}


def test_settings_win_over_the_environment() -> None:
    settings = LiveSettings(exchange_environment={"OKX_API_KEY": "mine"})
    assert with_exchange_variables(settings, ENVIRON).exchange_environment["OKX_API_KEY"] == "mine"
