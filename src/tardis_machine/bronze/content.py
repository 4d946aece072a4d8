"""What the records of an exchange in one stream were made from, and which of them may lack some.

Mappers and computed types have state: the same minute gives other records to whoever began later.
Records that may lack what came before the start carry its time, as a part of their identity.
"""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from tardis_machine.bronze.cases import PayloadCase

FIRST_VERSION = 1
"""The version of mappers that envelopes do not mention."""

END_OF_TIME_US = 2**62


class Content(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the records of one exchange in a stream were made."""

    mapper_version: int = FIRST_VERSION
    covered_us: tuple[int, int] | None = None
    """The range that was asked for, its end excluded; None for a live feed."""
    state_from_us: int = 0
    """When mapping began."""
    partial_us: Mapping[PayloadCase, tuple[int, int]] = {}
    """From when until when, by local time, records may lack what came before `state_from_us`."""
    recorder: str = ""
    """The id of who recorded the messages on their own; empty for the vendor's archive."""


COMPLETE = Content()
"""Nothing is missing, as in live feeds."""

NO_CONTENTS: Mapping[str, Content] = MappingProxyType({})
"""Of a stream about which there is nothing to say."""
