"""What the publisher process and its parent tell each other, message by message."""

import msgspec

from tardis_machine.sinks.reporting.status import Totals

READY, FAILED, REPORT, ALIVE = b"ready", b"failed ", b"report ", b"alive"
"""From the process: FAILED is followed by a text, REPORT by a `FinalReport` of each bus as JSON."""
DRAIN, NOW = b"drain", b"now"
"""From its parent: deliver what is left; end at once."""
MAX_MESSAGE_BYTES = 1 << 20
BUS_NOT_REACHED, EVENTS_LOST = 3, 4
"""Exit codes of the process."""


class FinalReport(msgspec.Struct, frozen=True):
    """What became of the events of one bus."""

    totals: Totals
    left: int
    """In logs or parked, for the next start."""
