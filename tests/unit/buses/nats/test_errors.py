"""What answers of JetStream mean."""

import pytest

from tardis_machine.buses.nats.errors import ApiError, forbidden_subject, read_ack, read_error
from tardis_machine.buses.results import DUPLICATE, OK


def test_positive_answers_are_told_from_repetitions() -> None:
    assert read_ack(b'{"stream":"s", "seq":7}', None) is OK
    assert read_ack(b'{"stream":"s", "seq":7, "duplicate":true}', None) is DUPLICATE
    assert read_ack(b'{"stream":"s","domain":"d","seq":7,"val":"1"}', {}) is OK


@pytest.mark.parametrize(
    ("data", "headers", "expected"),
    [
        (b"", {"Status": "503"}, ("bad_target", "no_destination")),
        (b"not json", None, ("ambiguous", "unreadable_ack")),
        (
            b'{"error":{"code":503,"err_code":10077,"description":"maximum messages"}}',
            None,
            ("bad_target", "stream_full"),
        ),
    ],
)
def test_refusals_are_understood(
    data: bytes, headers: dict[str, str] | None, expected: tuple[str, str]
) -> None:
    result = read_ack(data, headers)
    assert (result.outcome.value, result.reason) == expected


@pytest.mark.parametrize(
    ("code", "err_code", "expected"),
    [
        (400, 10054, ("bad_record", "too_large")),
        (400, 10060, ("bad_target", "wrong_stream")),
        (400, 10070, ("transient", "out_of_order")),
        (409, 10158, ("transient", "in_process")),
        (503, 10076, ("bad_target", "jetstream_disabled")),
        (503, 10008, ("transient", "unavailable")),
        (500, 0, ("transient", "unavailable")),
        (400, 1, ("bad_target", "refused")),
    ],
)
def test_error_codes_decide(code: int, err_code: int, expected: tuple[str, str]) -> None:
    result = read_error(ApiError(code, err_code, "text"))
    assert (result.outcome.value, result.reason) == expected
    assert result.detail == f"{err_code}: text"


def test_forbidden_subject_is_read_from_the_error_text() -> None:
    text = 'nats: permissions violation for publish to "a.b"'
    assert forbidden_subject(text) == "a.b"
    assert forbidden_subject("nats: something else") is None
