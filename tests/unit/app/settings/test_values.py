from collections.abc import Mapping
from dataclasses import make_dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import pytest

from tardis_machine.app.settings.options import Option, options_of
from tardis_machine.app.settings.values import read_value
from tardis_machine.model.settings import Secret, option


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark-blue"


def declared(annotation: Any, name: str = "value", **details: Any) -> Option:
    """Return an option of a type as a class would declare it."""
    field = (name, annotation, option(None, "Help.", **details))
    return options_of(make_dataclass("Settings", [field], frozen=True, kw_only=True))[0]


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (bool, "true", True),
        (bool, "false", False),
        (int, "1_000", 1000),
        (int, "-1", -1),
        (float, "0.5", 0.5),
        (str, "a,b", "a,b"),
        (Path, "a/b", Path("a/b")),
        (Path | None, "", None),
        (Secret, "s3cret", Secret("s3cret")),
        (Literal["lz4", "none"], "none", "none"),
        (Colour, "dark-blue", Colour.DARK_BLUE),
        (tuple[str, ...], " a:1 , b:2,", ("a:1", "b:2")),
        (tuple[str, ...], '["a,b", "c"]', ("a,b", "c")),
        (tuple[str, ...], "", ()),
        (tuple[int, ...], "1,2", (1, 2)),
        (Mapping[str, str], "trade: t1, quote:a:b", {"trade": "t1", "quote": "a:b"}),
        (Mapping[str, str], '{"env": "a,b", "level": 3}', {"env": "a,b", "level": "3"}),
        (dict[str, str], "", {}),
    ],
)
def test_text_is_read_by_the_annotation(annotation: Any, text: str, value: Any) -> None:
    assert read_value(declared(annotation), text) == value


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1024", 1024),
        ("64 MiB", 64 * 2**20),
        ("1.5KiB", 1536),
        ("2 gb", 2 * 10**9),
        ("1GiB", 2**30),
        ("3KB", 3000),
    ],
)
def test_option_named_bytes_takes_sizes(text: str, size: int) -> None:
    assert read_value(declared(int, "queue_max_bytes"), text) == size


@pytest.mark.parametrize("text", ["64 XiB", "MiB", "0.3KB0", "1.00001 KiB", "1.2.3", ""])
def test_malformed_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="queue-max-bytes must be a size in bytes or with KiB"):
        read_value(declared(int, "queue_max_bytes"), text)


@pytest.mark.parametrize(
    ("annotation", "raw", "value"),
    [
        (int, 5, 5),
        (bool, True, True),
        (float, 2, 2.0),
        (tuple[str, ...], ["a", "b"], ("a", "b")),
        (Mapping[str, str], {"a": "b"}, {"a": "b"}),
        (str, 5, "5"),
    ],
)
def test_toml_values_keep_their_type(annotation: Any, raw: object, value: Any) -> None:
    assert read_value(declared(annotation), raw) == value


@pytest.mark.parametrize(
    ("annotation", "raw"),
    [
        (bool, "1"),
        (bool, "True"),
        (int, "1.5"),
        (int, True),
        (float, "nan"),
        (float, "inf"),
        (str, ["a"]),
        (tuple[str, ...], {"a": 1}),
        (tuple[str, ...], "[1,"),
        (Mapping[str, str], ["a"]),
        (Mapping[str, str], "a"),
        (Mapping[str, str], ":b"),
    ],
)
def test_value_of_another_type_is_refused(annotation: Any, raw: object) -> None:
    with pytest.raises(ValueError, match="value"):
        read_value(declared(annotation), raw)


def test_number_outside_its_bounds_is_refused_with_both() -> None:
    batch = declared(int, "max_batch_size", minimum=1, maximum=500)
    with pytest.raises(
        ValueError, match=r"^max-batch-size must be an integer between 1 and 500\.$"
    ):
        read_value(batch, "501")


def test_wrong_choice_names_the_valid_ones_and_the_nearest() -> None:
    compression = declared(Literal["none", "gzip", "zstd"], "compression")
    with pytest.raises(ValueError, match=r"one of none, gzip, zstd\. Did you mean 'zstd'\?"):
        read_value(compression, "zst")


def test_text_outside_its_pattern_is_refused() -> None:
    producer = declared(str, "producer_id", pattern="[a-z]{1,4}")
    assert read_value(producer, "abcd") == "abcd"
    with pytest.raises(ValueError, match=r"producer-id must match \[a-z\]\{1,4\}\."):
        read_value(producer, "abcde")


def test_bad_map_entry_is_named_with_the_expected_form() -> None:
    routing = declared(Mapping[str, str], "subject_routing", metavar="payloadCase:subject")
    message = r'^Invalid subject-routing entry "x". Expected payloadCase:subject\.$'
    with pytest.raises(ValueError, match=message):
        read_value(routing, "trade:a,x")


def test_repeated_map_key_is_refused() -> None:
    with pytest.raises(ValueError, match='Duplicate value entry "a"'):
        read_value(declared(Mapping[str, str]), "a:1,a:2")


def test_secret_map_keeps_its_entries_out_of_errors() -> None:
    with pytest.raises(ValueError, match=r"^Invalid config entry\. Expected key:value\.$"):
        read_value(declared(Mapping[str, str], "config", secret=True), "hunter2")


def test_own_parse_function_gets_text_also_from_toml() -> None:
    assert read_value(declared(int, parse=len), 12345) == 5
