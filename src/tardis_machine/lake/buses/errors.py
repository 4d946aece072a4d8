"""Errors of readers.

The tree, below those of `lake.errors`::

    LakeError
    ├── BusError                     a bus refuses to be read: login, permission, no such stream
    │   └── BusUnavailableError      it is down, slow or throttling   (retryable)
    └── DataLossError                it no longer holds what must be read
"""

from tardis_machine.lake.errors import LakeError


class BusError(LakeError):
    """A bus cannot be read as the settings say."""


class BusUnavailableError(BusError):
    """The bus is down, slow or throttling; the same call may succeed later."""

    retryable = True
