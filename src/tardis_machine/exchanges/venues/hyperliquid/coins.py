"""Coins of Hyperliquid, which are spelled in a case of their own."""

THOUSANDS = frozenset({"PEPE", "SHIB", "BONK", "FLOKI", "LUNC", "DOGS", "NEIRO"})
"""Coins that are traded by the thousand, under a name with a small k before it."""


def native_coin(symbol: str) -> str:
    """Return a coin in its own case: `kPEPE` for `KPEPE`, `xyz:TSLA` for `XYZ:TSLA`."""
    deployer, colon, name = symbol.partition(":")
    if colon:
        return f"{deployer.lower()}:{name}"
    if symbol[:1] == "K" and symbol[1:] in THOUSANDS:
        return f"k{symbol[1:]}"
    return symbol
