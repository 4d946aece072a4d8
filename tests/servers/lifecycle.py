"""What all servers of the tests have in common: `with Server() as server:`."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Lifecycle(ABC):
    """Start on entry, close on exit, also when the start fails."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and return when clients may come."""

    @abstractmethod
    def close(self) -> None:
        """End at once and leave nothing behind."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
