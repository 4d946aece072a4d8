import pytest

from tardis_machine.computed.intervals import Intervals, ms_part
from tests.unit.computed.builders import START_MS, at


def test_times_of_one_interval_share_a_number() -> None:
    intervals = Intervals(100)
    first = intervals.number_of(at(0))
    assert [intervals.number_of(at(ms)) - first for ms in (99, 100, 199, 250, 50)] == [
        0,
        1,
        1,
        2,
        0,
    ]


def test_microseconds_do_not_count() -> None:
    intervals = Intervals(1000)
    assert intervals.number_of("2024-03-01T00:00:00.999999Z") == START_MS // 1000


def test_end_has_milliseconds() -> None:
    intervals = Intervals(1000)
    assert intervals.end_text(intervals.number_of(at(1500))) == "2024-03-01T00:00:02.000Z"


@pytest.mark.parametrize("length_ms", [0.5, 2.5, 33.3])
def test_fractional_intervals_are_divided_exactly(length_ms) -> None:
    intervals = Intervals(length_ms)
    for ms in (0, 1, 2, 3, 4, 5, 34, 33):
        assert intervals.number_of(at(ms)) == int((START_MS + ms) / length_ms)


def test_interval_of_zero_never_ends() -> None:
    intervals = Intervals(0)
    assert intervals.number_of(at(0)) == intervals.number_of(at(10**9))


def test_time_before_1970_rounds_down() -> None:
    assert Intervals(1000).number_of("1969-12-31T23:59:59.999Z") == -1


def test_ms_part_compares_like_time() -> None:
    assert ms_part("2024-03-01T00:00:00.123Z") == ms_part("2024-03-01T00:00:00.123999Z")
    assert ms_part("2024-03-01T00:00:00.123999Z") < ms_part("2024-03-01T00:00:00.124Z")
