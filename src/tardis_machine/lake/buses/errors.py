"""Errors of readers; `model.errors` draws the tree."""

from tardis_machine.lake.errors import LakeError


class BusError(LakeError):
    """A bus cannot be read as the settings say."""


class BusUnavailableError(BusError):
    """The bus is down, slow or throttling; the same call may succeed later."""

    retryable = True
