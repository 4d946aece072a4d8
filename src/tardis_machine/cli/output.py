"""Standard output that cannot be written to any more."""

import os
import sys


def discard_output() -> None:
    """Drop what is still to be written; flushing it at exit would fail once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
