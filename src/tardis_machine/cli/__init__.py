"""The command line: parses, calls `app`, prints. One file per command."""

from tardis_machine.cli.dispatch import main

__all__ = ["main"]
