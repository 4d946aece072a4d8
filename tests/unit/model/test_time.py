import pytest

from tardis_machine.model.time import (
    MINUTE_US,
    auto_text,
    floor_minute,
    fraction_digits,
    iso_text,
    iso_us_text,
    ms_text,
    ns_text,
    parse_instant,
    parse_us,
    sec_us_text,
    us_text,
)

# 2023-11-14T22:13:20Z
SECOND = 1_700_000_000


def test_epoch_milliseconds_have_three_digits() -> None:
    assert ms_text(SECOND * 1000 + 123) == "2023-11-14T22:13:20.123Z"
    assert ms_text(SECOND * 1000 + 0.9) == "2023-11-14T22:13:20.000Z"


def test_epoch_microseconds_have_six_digits_also_when_zero() -> None:
    assert us_text(SECOND * 1_000_000 + 123_456) == "2023-11-14T22:13:20.123456Z"
    assert us_text(SECOND * 1_000_000) == "2023-11-14T22:13:20.000000Z"


def test_epoch_nanoseconds_are_cut_to_microseconds() -> None:
    # As a double, or rounded, it would be the next microsecond.
    assert ns_text(SECOND * 1_000_000_000 + 123_456_999) == "2023-11-14T22:13:20.123456Z"


@pytest.mark.parametrize(
    ("seconds", "fraction"),
    [
        (SECOND, "000000"),
        (SECOND + 0.5, "500000"),
        (float(f"{SECOND}.123456"), "123456"),
        (float(f"{SECOND}.000001"), "000001"),
        (float(f"{SECOND}.999999"), "999999"),
        (float(f"{SECOND}.9999997"), "999999"),
    ],
)
def test_epoch_seconds_keep_their_microseconds(seconds: float, fraction: str) -> None:
    assert sec_us_text(seconds) == f"2023-11-14T22:13:20.{fraction}Z"


def test_digits_below_milliseconds_are_computed_apart() -> None:
    # In doubles the microseconds of this time round up to 380000, its milliseconds stay 379.
    assert sec_us_text(1561979843.37999992) == "2019-07-01T11:17:23.379000Z"


def test_unit_of_an_epoch_number_is_told_by_its_size() -> None:
    assert auto_text(1_700_000_000_123_456) == "2023-11-14T22:13:20.123456Z"
    assert auto_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
        (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        (253_402_300_800_000_000, "+010000-01-01T00:00:00.000000Z"),
    ],
)
def test_calendar_holds_at_its_edges(us: int, text: str) -> None:
    assert us_text(us) == text
    assert parse_us(text) == us


@pytest.mark.parametrize(
    ("text", "fraction_us"),
    [
        ("2023-11-14T22:13:20Z", 0),
        ("2023-11-14T22:13:20.1Z", 100_000),
        ("2023-11-14T22:13:20.123Z", 123_000),
        ("2023-11-14T22:13:20.123456Z", 123_456),
        ("2023-11-14T22:13:20.1239999Z", 123_999),
        ("2023-11-14T22:13:20.123456789Z", 123_456),
        ("2023-11-14T22:13:20.5+00:00", 500_000),
    ],
)
def test_wire_text_is_parsed_and_cut_to_microseconds(text: str, fraction_us: int) -> None:
    assert parse_us(text) == SECOND * 1_000_000 + fraction_us


@pytest.mark.parametrize(
    "text", ["", "2023-11-14", "2023-11-14T22:13:20", "yesterday", "1700000000"]
)
def test_other_text_is_not_wire_time(text: str) -> None:
    with pytest.raises(ValueError, match="not a UTC time"):
        parse_us(text)


def test_venue_time_is_cut_to_milliseconds() -> None:
    assert iso_text("2023-11-14T22:13:20.1239Z") == "2023-11-14T22:13:20.123Z"
    assert iso_text("2023-11-14T22:13:20.123Z") == "2023-11-14T22:13:20.123Z"
    assert iso_text("2023-11-14T22:13:20Z") == "2023-11-14T22:13:20.000Z"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("2023-11-14T22:13:20.123456Z", "2023-11-14T22:13:20.123456Z"),
        ("2023-11-14T22:13:20.1234567Z", "2023-11-14T22:13:20.123456Z"),
        ("2023-11-14T22:13:20.123456789Z", "2023-11-14T22:13:20.123456Z"),
        ("2023-11-14T22:13:20.123Z", "2023-11-14T22:13:20.123000Z"),
        ("2023-11-14T22:13:20.12345678Z", "2023-11-14T22:13:20.123000Z"),
    ],
)
def test_venue_time_keeps_microseconds_where_the_reference_reads_them(text: str, kept: str) -> None:
    assert iso_us_text(text) == kept


def test_digit_count_is_told_by_the_text() -> None:
    assert fraction_digits("2023-11-14T22:13:20.123Z") == 3
    assert fraction_digits("2023-11-14T22:13:20.123456Z") == 6


@pytest.mark.parametrize(
    ("text", "wire"),
    [
        ("2019-06-01", "2019-06-01T00:00:00.000000Z"),
        ("2019-6-1", "2019-06-01T00:00:00.000000Z"),
        ("2019", "2019-01-01T00:00:00.000000Z"),
        ("2019-06-01 00:01", "2019-06-01T00:01:00.000000Z"),
        ("2019-06-01T00:01:02.5Z", "2019-06-01T00:01:02.500000Z"),
        ("2019-06-01T24:00", "2019-06-02T00:00:00.000000Z"),
        ("2019-02-30", "2019-03-02T00:00:00.000000Z"),
        ("2019-06-01T02:00+02:00", "2019-06-01T00:00:00.000000Z"),
        ("2019-06-01T00:00-0530", "2019-06-01T05:30:00.000000Z"),
        ("2019-06-01 00:00 UTC", "2019-06-01T00:00:00.000000Z"),
        ("6/1/2019", "2019-06-01T00:00:00.000000Z"),
    ],
)
def test_date_argument_is_read_leniently(text: str, wire: str) -> None:
    instant = parse_instant(text)
    assert instant is not None
    assert us_text(instant) == wire


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "1559347200000",
        "2019-13-01",
        "2019-06-32",
        "2019-06-01T25:00",
        "2019-06-01T24:01",
    ],
)
def test_date_argument_that_is_no_date_is_none(text: str) -> None:
    assert parse_instant(text) is None


def test_minutes_are_cut_downwards() -> None:
    assert floor_minute(3 * MINUTE_US + 59_999_999) == 3 * MINUTE_US
