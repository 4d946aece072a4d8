"""`tardis-machine lake instruments`: what the data API says of the symbols of a lake."""

import asyncio
import sys

from tardis_machine.app.settings.lake_commands import LakeInstrumentsSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.cli.lake.existing import existing_tables
from tardis_machine.exchanges.registry import REGISTRY
from tardis_machine.lake.instruments import Symbols, collect_periods, write_periods
from tardis_machine.model.errors import UnknownNameError
from tardis_machine.sources.metadata.client import InstrumentsApi, MetadataSettings


def run(settings: LakeInstrumentsSettings) -> int:
    """Ask for the instruments of the exchanges in the lake, and write what differs."""
    existing_tables(settings.lake.root)
    wanted = settings.instruments.exchange
    for exchange in wanted:
        if exchange not in REGISTRY:
            raise UnknownNameError("exchange", exchange, REGISTRY)
    symbols = Symbols.of(settings.lake.root)
    exchanges = wanted or tuple(sorted(symbols.by_exchange))
    api = InstrumentsApi(_client_settings(settings))
    periods = asyncio.run(collect_periods(symbols, exchanges, api.fetch, _say))
    if not periods:
        _say("Nothing to write: the data API knows no symbol that this lake has events of.")
        return ExitCode.OK
    _say(write_periods(settings.lake, settings.spark, periods))
    _say("Gold follows with the next events; `lake rebuild` computes past days anew.")
    return ExitCode.OK


def _client_settings(settings: LakeInstrumentsSettings) -> MetadataSettings:
    options = settings.instruments
    return MetadataSettings(
        endpoint=options.endpoint,
        cache_dir=settings.spark.cache_dir,
        api_key=options.api_key,
        http_proxy=options.http_proxy,
        offline=options.offline,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
