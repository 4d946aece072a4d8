"""Run the command line as `python -m tardis_machine`."""

import sys

from tardis_machine.cli import main

if __name__ == "__main__":
    sys.exit(main())
