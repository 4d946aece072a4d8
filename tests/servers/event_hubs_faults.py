"""What may go wrong with a send to Event Hubs, as values."""

import msgspec

from tests.servers.faults import AbortAfter, AbortBefore, Delay, Pass


class Reject(msgspec.Struct, frozen=True, tag=True):
    """Refuse the batch with a condition of the service; nothing is stored."""

    condition: str
    description: str = "refused by the test server"


class Release(msgspec.Struct, frozen=True, tag=True):
    """Give the batch back without an error; nothing is stored."""


class Detach(msgspec.Struct, frozen=True, tag=True):
    """Close the sender's link with a condition; nothing is stored."""

    condition: str
    description: str = "detached by the test server"


class Hang(msgspec.Struct, frozen=True, tag=True):
    """Store nothing and never answer."""


Fault = Reject | Release | Detach | Hang | AbortBefore | AbortAfter | Delay | Pass

SERVER_BUSY = Reject("com.microsoft:server-busy")
TOO_LARGE = Reject("amqp:link:message-size-exceeded")
UNAUTHORIZED = Reject("amqp:unauthorized-access")
DETACH_FORCED = Detach("amqp:link:detach-forced")
