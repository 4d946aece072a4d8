"""Commit the files that tasks have written to `bronze.events`, those of each batch once."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction

from tardis_machine.lake.tables.bronze import EVENTS

PLAN = "tardisMachinePlan"
"""Name in a commit of what tells a planned batch from another one of the same number."""
LATEST_COMMITS = 100


@dataclass(frozen=True)
class Commits:
    """The commits of one query."""

    path: str
    """The table."""
    checkpoint: str
    """Where the query notes what it has planned."""

    def add(self, files: Iterable[Mapping[str, Any]], batch: int) -> None:
        """Commit the files of a batch."""
        actions: list[AddAction | RemoveAction] = [self._action(file) for file in files]
        if not actions:
            return
        table = DeltaTable(self.path)
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            list(EVENTS.partition_by),
            commit_properties=CommitProperties(
                custom_metadata={PLAN: self._plan(batch)},
                app_transactions=[Transaction(self._query_id(), batch)],
            ),
        )

    def has(self, batch: int) -> bool:
        """Say whether a batch was committed before, by a run that was killed then.

        Who restores an older checkpoint plans other batches with the same numbers.
        """
        table = DeltaTable(self.path)
        if table.transaction_version(self._query_id()) != batch:
            return False
        plans = [commit[PLAN] for commit in table.history(LATEST_COMMITS) if PLAN in commit]
        return not plans or self._plan(batch) in plans

    def _action(self, file: Mapping[str, Any]) -> AddAction:
        return AddAction(
            path=file["path"],
            size=file["size"],
            partition_values={name: file[name] for name in EVENTS.partition_by},
            modification_time=int(Path(self.path, file["path"]).stat().st_mtime * 1000),
            data_change=True,
            stats=file["stats"],
        )

    def _query_id(self) -> str:
        # As Spark's own writer for Delta names it, so that lakes of both can be continued.
        text = Path(self.checkpoint, "metadata").read_text(encoding="utf-8")
        return str(json.loads(text)["id"])

    def _plan(self, batch: int) -> str:
        """Return a digest of the query and the positions of a batch."""
        text = Path(self.checkpoint, "offsets", str(batch)).read_text(encoding="utf-8")
        # The first two lines are the version of the file, and when it was planned.
        positions = "\n".join([self._query_id(), *text.splitlines()[2:]])
        return hashlib.sha256(positions.encode()).hexdigest()
