"""Credentials, addresses and limits of exchanges, from the environment of a command."""

from collections.abc import Mapping
from dataclasses import replace

from tardis_machine.exchanges.feeds import variable
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.sources.live.settings import LiveSettings

CREDENTIALS = ("OKX_", "DERIBIT_API_", "COINBASE_API_", "COINBASE_INTERNATIONAL_API_")

LIMITS = (
    "_REQUEST_WEIGHT_LIMIT",
    "_MIN_AVAILABLE_WEIGHT_BUFFER",
    "_CONCURRENCY_LIMIT",
    "_SNAPSHOTS_DELAY_MS",
    "_OPEN_INTEREST_POLLING_INTERVAL_MS",
)


def with_exchange_variables(settings: LiveSettings, environ: Mapping[str, str]) -> LiveSettings:
    """Add the variables about exchanges; what the settings have wins."""
    names = {variable(exchange, "WSS_URL_") for exchange in REGISTRY}
    names |= {variable(exchange, "", limit) for exchange in REGISTRY for limit in LIMITS}
    found = {
        name: value
        for name, value in environ.items()
        if name in names or name.startswith(CREDENTIALS)
    }
    return replace(settings, exchange_environment={**found, **settings.exchange_environment})
