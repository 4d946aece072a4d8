"""What a server or job has lost, by what is on disk: for when its publisher cannot say."""

from pathlib import Path

from tardis_machine.sinks.storage.directory import find_logs
from tardis_machine.sinks.storage.positions import BEGINNING, read_position
from tardis_machine.sinks.storage.skipped import SkippedRanges


def lost_events(root: Path, instance: str) -> int:
    """Count the events that were lost, for each bus, in the logs that an instance wrote."""
    lost = 0
    for directory in find_logs(root):
        if directory.owner.instance != instance:
            continue
        written = read_position(directory.written_path) or BEGINNING
        for reader in directory.owner.readers:
            position = read_position(directory.position_path(reader)) or BEGINNING
            skipped = SkippedRanges(directory.skipped_path(reader))
            lost += written.dropped + position.dropped + skipped.dropped_after(position.number)
    return lost
