"""Phemex symbols: case sensitive ids, which tell the market and the channels it is sent on.

Ids of spot markets begin with `s` (`sBTCUSDT`), those of some contracts with `c` or `u100`. Symbols
of trades and books are in upper case, and clients ask for them as they got them: the id is found
again by its market.
"""

from collections.abc import Callable

from tardis_machine.exchanges.spec import Symbols
from tardis_machine.model.requests import Filter

_S_PERPETUALS = """
    SAFEUSD SAGAUSD SAHARAUSDT SAMSUNGUSDT SANDUSD SANTOSUSD SAPIENUSDT SAROSUSD SCAUSD SCRTUSD
    SCRUSD SEIUSD SENTUSDT SERAPHUSD SFPUSD SHELLUSD SIGNUSD SIRENUSD SKATEUSD SKHYNIXUSDT
    SKHYUSDT SKLUSD SKRUSDT SKYAIUSD SKYUSDT SLERFUSD SLPUSD SLPUUSD SLXUSDT SMCIUSDT SNDKUSDT
    SNTUSD SNXUSD SOLAMIUSDT SOLUSD SOLVUSD SOMIUSDT SONICUSD SONYUSDT SOONUSD SOPHUSD SOXLUSDT
    SP500USDT SPACEUSDT SPACEXUSDT SPCXUSDT SPELLUSD SPKUSDT SPORTFUNUSDT SPX500USDT SPXUSD
    SPYXUSDT SQDUSD SQQQUSDT SRMUSD SSVUSD STABLEUSDT STARUSDT STBLUSDT STEEMUSD STGUSD
    STICKMANUSD STMXUSD STORJUSD STOUSD STPTUSD STRAXUSD STRCUSDT STRKUSD STRUSD STXUSD STXXUSDT
    SUIUSD SUNDOGUSD SUNUSD SUPERUSD SUSHIUSD SWARMSUSD SWELLUSD SXPUSD SXTUSD SYNUSD SYRUPUSD
    SYSUSD
"""

_PILOT_PERPETUALS = """
    ANGLERFISHPUSD BNBCARDPUSD BNBXBTPUSD BUTTCOINPUSD CRYPTOAIPUSD CTDPUSD DOGEAIPUSD
    FULLSENDPUSD GHIBLIPUSD GREED3PUSD IMGPUSD MCPOSPUSD PAINPUSD PERRYPUSD SIRENPUSD TITCOINPUSD
    TOLYPUSD WILDNOUTPUSD
"""

S_PERPETUALS = tuple(_S_PERPETUALS.split())
"""How perpetuals of a currency with S begin; everything else with S is a spot market."""

PILOT_PERPETUALS = frozenset(_PILOT_PERPETUALS.split())
"""Perpetuals that are sent in decimals although they are not quoted in USDT or USDC."""


def is_spot(symbol: str) -> bool:
    """Say whether an id, or a symbol in upper case, names a spot market."""
    if symbol[-1:].isdecimal():
        return False  # A dated future.
    if symbol.startswith("s"):
        return True
    return symbol.startswith("S") and symbol != "SUSDT" and not symbol.startswith(S_PERPETUALS)


def native_id(symbol: str) -> str:
    """Return the id of a symbol as clients write it."""
    if symbol.startswith(("s", "u100", "c")) or symbol in PILOT_PERPETUALS:
        return symbol
    if symbol.startswith("U100") or symbol == "CETHUSD" or is_spot(symbol):
        return symbol[0].lower() + symbol[1:]
    return symbol


def is_decimal(native: str) -> bool:
    """Say whether an id is sent as decimal text, not as scaled integers."""
    is_linear = native.endswith(("USDT", "USDC")) and not is_spot(native)
    return is_linear or native in PILOT_PERPETUALS


def split_filters(scaled: str, decimal: str) -> Callable[[Symbols], list[Filter]]:
    """Build the filter function of a data type whose symbols are split over two channels."""

    def filters(symbols: Symbols) -> list[Filter]:
        if not symbols:
            return [Filter(scaled), Filter(decimal)]
        natives = [native_id(symbol) for symbol in symbols]
        by_channel = {
            decimal: tuple(native for native in natives if is_decimal(native)),
            scaled: tuple(native for native in natives if not is_decimal(native)),
        }
        return [Filter(channel, ids) for channel, ids in by_channel.items() if ids]

    return filters
