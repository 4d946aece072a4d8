"""Spark properties as a table of a TOML file, and in errors."""

from pathlib import Path

import pytest

from tardis_machine.app.settings.lake_commands import LakeJobSettings
from tardis_machine.app.settings.loading import load_settings
from tardis_machine.cli.dispatch import known_names
from tardis_machine.lake.settings import SparkSettings
from tardis_machine.model.errors import SettingsError

SECRET = "hush-hush"


def spark_settings(folder: Path, *flags: str, toml: str = "") -> SparkSettings:
    file = folder / "tm.toml"
    file.write_text(toml)
    words = ["--config", str(file), *flags]
    return load_settings(LakeJobSettings, words, {}, known_names()).settings.spark


def test_properties_are_a_table(tmp_path: Path) -> None:
    toml = f"""
    [spark.conf]
    spark.executor.memory = "4g"
    "spark.hadoop.fs.s3a.secret.key" = "{SECRET}"
    spark.ui.enabled = true
    spark.sql.shuffle.partitions = 8
    """
    assert spark_settings(tmp_path, toml=toml).conf == {
        "spark.executor.memory": "4g",
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.ui.enabled": "true",
        "spark.sql.shuffle.partitions": "8",
    }


def test_error_shows_no_value(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected key=value") as caught:
        spark_settings(tmp_path, "--conf", f"spark.key {SECRET}")
    assert SECRET not in str(caught.value)
