"""Types of `compiled_blocks.pyx`."""

from collections.abc import Iterable, Sequence

from tardis_machine.bronze.blocks import LeftOut, OnReject, SlotsOf
from tardis_machine.bronze.envelope import Envelope
from tardis_machine.bronze.ordinals import Ordinals
from tardis_machine.bronze.writers import ReadTime
from tardis_machine.model.ndjson import NormalizedRecord

class CompiledBlockEncoder:
    def __init__(self, slots_of: SlotsOf, read_time: ReadTime, ordinals: Ordinals) -> None: ...
    def encode(
        self,
        records: Sequence[NormalizedRecord],
        stamp: bytes,
        left_out: LeftOut,
        envelopes: list[Envelope | None],
        on_reject: OnReject,
    ) -> None: ...

def identities(envelopes: Iterable[Envelope]) -> list[str]: ...
