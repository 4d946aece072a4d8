"""What goes wrong between us and an exchange."""

from tardis_machine.model.errors import SourceError


class ExchangeError(SourceError):
    """An exchange refused a connection, a request or a subscription, or cannot be understood."""

    retryable = True

    def __init__(self, text: str, *, wait_seconds: float | None = None) -> None:
        super().__init__(text)
        self.wait_seconds = wait_seconds
        """How long the exchange wants not to be asked again."""


class StaleConnectionError(SourceError):
    """A connection says nothing any more."""

    retryable = True
