"""`tardis-machine normalize`: recorded lines in, normalized NDJSON out."""

import sys

from tardis_machine.app.normalize import normalize_files
from tardis_machine.app.settings.commands import NormalizeSettings
from tardis_machine.cli.output import discard_output
from tardis_machine.model.errors import TardisMachineError


def run(settings: NormalizeSettings) -> int:
    """Write the records of files or of standard input to standard output."""
    for body in normalize_files(settings.normalize, sys.stdin.buffer):
        try:
            sys.stdout.buffer.write(body)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            discard_output()
            raise TardisMachineError(
                f"Records cannot be written to standard output: {error.strerror or error}."
            ) from error
    return 0
