"""What a quality check is."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What it means when a check finds rows."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Check:
    """One quality check."""

    table: str
    """The table to check; the check is skipped while it has no rows."""
    name: str
    severity: Severity
    meaning: str
    """What it means when rows are found, and what to do."""
    sql: str
    """Returns the rows that should not exist; a column `n` stands for that many rows."""
