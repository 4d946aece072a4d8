"""Sequence numbers of live books: each update names the one before it, or counts on by one."""

from tardis_machine.exchanges.spec import Mapper, drop_symbol
from tardis_machine.model.errors import BookGapError


class BookChain:
    """Follows the numbers of every symbol; at first and after a gap updates wait for a snapshot."""

    def __init__(self) -> None:
        self._last: dict[str, int | None] = {}
        """By symbols that have begun; None where the venue sent no number."""

    def begin(self, symbol: str, number: int | None) -> None:
        """Take a snapshot."""
        self._last[symbol] = number

    def forget(self, symbol: str) -> None:
        """Let a symbol wait for a snapshot again, however it is written."""
        drop_symbol(self._last, symbol)

    def follows(self, symbol: str, previous: int | None, number: int | None) -> bool:
        """Say whether an update can be used.

        Raises:
            BookGapError: it does not follow the one before it.
        """
        if symbol not in self._last:
            return False
        last = self._last[symbol]
        if last is not None and previous is not None and previous != last:
            del self._last[symbol]
            raise BookGapError(symbol, f"a book update follows {previous}, not {last}.")
        self._last[symbol] = number
        return True


class NumberedBookMapper(Mapper):
    """Maps books whose messages are numbered; those of a live connection must follow each other.

    Recordings may have gaps and are mapped as they are: nothing depends on earlier messages then.
    """

    is_stateless = True

    def __init__(self, exchange: str, *, is_live: bool) -> None:
        super().__init__(exchange, is_live=is_live)
        self._chain = BookChain()

    def forget(self, symbol: str) -> None:
        """Let a book wait for a snapshot again."""
        super().forget(symbol)
        self._chain.forget(symbol)

    def follows(
        self, symbol: str, previous: int | None, number: int | None, *, is_snapshot: bool
    ) -> bool:
        """Say whether a live message can be used; a snapshot always can.

        Raises:
            BookGapError: it does not follow the one before it.
        """
        if is_snapshot:
            self._chain.begin(symbol, number)
            return True
        return self._chain.follows(symbol, previous, number)

    def counts_on(self, symbol: str, number: int | None, *, is_snapshot: bool) -> bool:
        """Say the same of a live message whose number is one more than that before it.

        Raises:
            BookGapError: it does not follow the one before it.
        """
        previous = None if number is None else number - 1
        return self.follows(symbol, previous, number, is_snapshot=is_snapshot)
