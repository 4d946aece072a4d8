"""`tardis-machine lake tables`: what the lake holds."""

from rich.console import Console
from rich.table import Table

from tardis_machine.app.settings.lake_commands import LakeCommandSettings
from tardis_machine.cli.lake.existing import existing_tables


def run(settings: LakeCommandSettings) -> int:
    """Print rows, files, size and freshness of every table."""
    shown = Table("table", "rows", "files", "MB", "version", "changed (UTC)")
    for state in existing_tables(settings.lake.root):
        shown.add_row(
            state.name,
            f"{state.rows:,}",
            f"{state.files:,}",
            f"{state.size_bytes / 1e6:,.1f}",
            str(state.version),
            f"{state.changed_at:%Y-%m-%d %H:%M:%S}",
        )
    Console().print(shown)
    return 0
