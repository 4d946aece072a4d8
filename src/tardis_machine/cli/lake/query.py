"""`tardis-machine lake query`: SQL over the tables, without Spark."""

import sys
from pathlib import Path

from tardis_machine.app.settings.lake_commands import LakeQuerySettings
from tardis_machine.lake.query.delta import read_as_of
from tardis_machine.lake.query.sql import Query
from tardis_machine.model.errors import SettingsError


def run(settings: LakeQuerySettings) -> int:
    """Print the answer, or write it to a file."""
    options = settings.query
    _check_folder(options.output)
    query = Query(settings.lake.root, options.sql, read_as_of(options.as_of))
    if options.format == "parquet":
        if options.output is None:
            raise SettingsError("--format parquet requires a file: set --output FILE.")
        query.write_parquet(options.output)
        return 0
    parts = [query.text() + "\n"] if options.format == "table" else query.lines(options.format)
    if options.output is None:
        sys.stdout.writelines(parts)
    else:
        with options.output.open("w", encoding="utf-8") as file:
            file.writelines(parts)
    return 0


def _check_folder(output: Path | None) -> None:
    if output is not None and not output.absolute().parent.is_dir():
        raise SettingsError(
            f"--output {output} cannot be written: the directory {output.parent} does not exist. "
            "Create it, or choose another file."
        )
