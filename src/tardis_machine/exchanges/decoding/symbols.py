"""Symbols as records have them, made once for all messages that name them."""

MAX_SYMBOLS = 100_000
"""Symbols that are remembered."""


class UpperSymbols(dict[str, str]):
    """Symbols in upper case, by how a venue writes them."""

    def __missing__(self, symbol: str) -> str:
        if len(self) >= MAX_SYMBOLS:
            self.clear()
        self[symbol] = upper = symbol.upper()
        return upper


upper_symbols = UpperSymbols()
