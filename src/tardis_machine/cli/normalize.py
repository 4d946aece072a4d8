"""`tardis-machine normalize`: recorded lines in, normalized NDJSON out."""

import sys

from tardis_machine.app.normalize import normalize_files
from tardis_machine.app.settings.commands import NormalizeSettings


def run(settings: NormalizeSettings) -> int:
    """Write the records of files or of standard input to standard output."""
    for body in normalize_files(settings.normalize, sys.stdin.buffer):
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
    return 0
