import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tardis_machine.bronze.times import time_reader, time_writer


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:00.000Z", (0, 0, 0)),
        ("1970-01-01T00:00:00.000000Z", (0, 0, 1)),
        ("1969-12-31T23:59:59.999999Z", (-1, 999_999_000, 1)),
        ("2024-03-01T00:00:00.123456Z", (1_709_251_200, 123_456_000, 1)),
        ("2024-03-01T00:00:00.120Z", (1_709_251_200, 120_000_000, 0)),
        ("0001-01-01T00:00:00.000Z", (-62_135_596_800, 0, 0)),
        ("+012345-06-07T08:09:10.123Z", (327_416_976_550, 123_000_000, 0)),
        ("+012345-06-07T08:09:10.123456Z", (327_416_976_550, 123_456_000, 1)),
    ],
)
def test_time_text_is_read_and_written_again(text: str, instant: tuple[int, int, int]) -> None:
    read, write = time_reader(), time_writer()
    for _ in range(2):  # The second round takes the second from the cache.
        assert read(text) == instant
        assert write(Timestamp(seconds=instant[0], nanos=instant[1]), instant[2]) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-03-01T00:00:00Z",
        "2024-03-01T00:00:00.1Z",
        "2024-03-01T00:00:00.1234567Z",
        "2024-03-01T00:00:00.1_2Z",
        "2024-03-01T00:00:00. 12Z",
        "2024-03-01T00:00:00.+12Z",
        "2024-03-01T00:00:00.12٣Z",
        "2024-03-01T00:00:00.123z",
        "2024-03-01T00:00:00.123+00:00",
        "2024-03-01 00:00:00.123Z",
        "2024-02-30T00:00:00.123Z",
        "2024-03-01T24:00:00.123Z",
        "+012345-06-07T08:09:123456Z",
    ],
)
def test_text_that_could_not_be_written_again_is_refused(text: str) -> None:
    read = time_reader()
    # The seconds of all these texts are known, so that the cache cannot let one through.
    for known in ("2024-03-01T00:00:00.123Z", "+012345-06-07T08:09:10.123Z"):
        read(known)
    with pytest.raises(ValueError, match=r"not a UTC time|invalid literal"):
        read(text)


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(0, -1), (0, 1_000_000_000), (8_640_000_000_001, 0), (-(2**62), 0)]
)
def test_numbers_that_are_no_time_are_refused(seconds: int, nanos: int) -> None:
    timestamp = Timestamp()
    timestamp.seconds, timestamp.nanos = seconds, nanos
    with pytest.raises((ValueError, LookupError)):
        time_writer()(timestamp, 1)


def test_many_seconds_stay_correct() -> None:
    read, write = time_reader(), time_writer()
    for second in range(20_000):
        instant = (second, 1000, 1)
        text = write(Timestamp(seconds=second, nanos=1000), 1)
        assert read(text) == instant
