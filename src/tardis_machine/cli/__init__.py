"""The command line: parses, calls `app`, prints. One file per command."""

from tardis_machine.cli.frame import main

__all__ = ["main"]
