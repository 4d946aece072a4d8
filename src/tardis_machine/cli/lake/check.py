"""`tardis-machine lake check`: data quality checks."""

from tardis_machine.app.settings.lake_commands import LakeCheckSettings
from tardis_machine.cli.commands import ExitCode
from tardis_machine.cli.lake.existing import existing_tables
from tardis_machine.lake.query.quality import Finding, check_lake


def run(settings: LakeCheckSettings) -> int:
    """Print what every check found; fail when a table is wrong."""
    existing_tables(settings.lake.root)
    findings = check_lake(settings.lake.root, settings.check.grace_seconds)
    for finding in findings:
        _show(finding)
    errors = sum(finding.is_error for finding in findings)
    print(f"{len(findings)} checks, {errors} failed.")
    return ExitCode.FAILURE if errors else ExitCode.OK


def _show(finding: Finding) -> None:
    check = finding.check
    state = str(check.severity) if finding.count else "ok"
    print(f"{state:8} {check.table}: {check.name}" + (f": {finding.count:,}" * bool(finding.count)))
    if finding.count:
        print(f"         {check.meaning}")
        for example in finding.examples:
            print(f"         {example}")
