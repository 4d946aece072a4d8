"""Who may write a lake."""

import subprocess
import sys
from pathlib import Path

import pytest

from tardis_machine.lake.errors import LakeError, LakeInUseError
from tardis_machine.lake.jobs import SILVER_AND_GOLD
from tardis_machine.lake.store.locks import locked

HOLD = """
import sys
from tardis_machine.lake.store.locks import locked
with locked(sys.argv[1], ["build"]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_second_writer_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    root = str(tmp_path / "a lake")
    command = [sys.executable, "-c", HOLD, root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        refused = rf"\({holder.pid}\) runs build of the lake"
        with pytest.raises(LakeInUseError, match=refused), locked(root, SILVER_AND_GOLD):
            pass
        with locked(root, ["refine"]):
            pass
        holder.kill()
    with locked(root, SILVER_AND_GOLD):
        pass


def test_root_that_is_no_folder_is_named(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.touch()
    with pytest.raises(LakeError, match=str(root)), locked(str(root), SILVER_AND_GOLD):
        pass


def test_store_of_objects_has_no_locks() -> None:
    with locked("s3a://market/lake", SILVER_AND_GOLD):
        pass
