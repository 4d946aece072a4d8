import math
import re

from hypothesis import given
from hypothesis import strategies as st

from tardis_machine.model.data_types import BookSnapshotSpec, TradeBarSpec, parse_computed
from tardis_machine.model.numbers import number_text, to_number
from tardis_machine.model.time import (
    floor_minute,
    fraction_digits,
    ms_text,
    parse_instant,
    parse_us,
    us_text,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
# From year 1 to 9999, where wire text has four-digit years.
times_us = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
intervals = st.one_of(
    st.integers(0, 10**9), st.floats(0.001, 1e6).map(lambda value: round(value, 3)).filter(bool)
)


@given(finite)
def test_number_text_reads_back_as_the_same_value(value: float) -> None:
    text = number_text(value)
    assert float(text) == value
    assert to_number(text) == value


@given(finite)
def test_number_text_has_the_form_ecmascript_gives(value: float) -> None:
    text = number_text(value)
    assert re.fullmatch(r"-?(0|[1-9]\d*)(\.\d*[1-9])?(e[+-][1-9]\d*)?", text)
    is_plain = value == 0 or 1e-6 <= abs(value) < 1e21
    assert is_plain == ("e" not in text)


@given(st.floats())
def test_number_text_never_fails(value: float) -> None:
    assert (number_text(value) == "null") == (not math.isfinite(value))


@given(times_us)
def test_microsecond_text_reads_back(us: int) -> None:
    text = us_text(us)
    assert parse_us(text) == us
    assert parse_instant(text) == us
    assert fraction_digits(text) == 6


@given(times_us)
def test_millisecond_text_reads_back_cut(us: int) -> None:
    text = ms_text(us // 1000)
    assert parse_us(text) == us // 1000 * 1000
    assert fraction_digits(text) == 3


@given(times_us, times_us)
def test_text_sorts_as_time_does(one: int, two: int) -> None:
    assert (one < two) == (us_text(one) < us_text(two))


@given(times_us)
def test_minute_starts_at_zero_seconds(us: int) -> None:
    start = floor_minute(us)
    assert us_text(start).endswith(":00.000000Z")
    assert 0 <= us - start < 60_000_000


@given(st.sampled_from(["time", "tick", "volume"]), intervals)
def test_bar_name_reads_back_as_its_spec(kind: str, interval: float) -> None:
    spec = TradeBarSpec(kind, interval)  # type: ignore[arg-type]
    assert parse_computed(spec.name) == spec


@given(st.integers(1, 1000), intervals, st.none() | intervals.filter(bool))
def test_snapshot_name_reads_back_as_its_spec(
    depth: int, interval: float, grouping: float | None
) -> None:
    spec = BookSnapshotSpec(depth, interval, grouping)
    assert parse_computed(spec.name) == spec
