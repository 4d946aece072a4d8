"""What answers of JetStream mean, and how a window collects them."""

import asyncio
from typing import Any

import pytest

from tardis_machine.sinks.base import DUPLICATE, OK, Event, Outcome, Result
from tardis_machine.sinks.nats.acks import ApiError, Window, forbidden_subject, read_ack, read_error
from tardis_machine.sinks.nats.settings import NatsSettings
from tests.contract.sinks import make_events

LATE = Result(Outcome.AMBIGUOUS, "late")


def events(count: int, subject: str = "s") -> list[Event]:
    return make_events(NatsSettings(servers=("nats://h",), subject=subject).router(), count)


def test_positive_answers_are_told_from_repetitions() -> None:
    assert read_ack(b'{"stream":"s", "seq":7}', None) is OK
    assert read_ack(b'{"stream":"s", "seq":7, "duplicate":true}', None) is DUPLICATE
    assert read_ack(b'{"stream":"s","domain":"d","seq":7,"val":"1"}', {}) is OK


@pytest.mark.parametrize(
    ("data", "headers", "expected"),
    [
        (b"", {"Status": "503"}, ("bad_target", "no_stream")),
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


async def test_window_is_settled_when_every_event_is() -> None:
    window = Window(events(3), first=10)
    window.acknowledge([10, 12])
    assert window.unsettled == 1
    window.settle(11, LATE)
    assert await window.wait(0)
    assert window.results == [OK, LATE, OK]
    assert not window.is_all_ok
    assert window.is_held_up


async def test_late_and_repeated_answers_meet_nobody() -> None:
    window = Window(events(2), first=10)
    window.acknowledge([9, 12, 10, 10])
    window.settle(10, LATE)
    window.settle(3, LATE)
    assert window.results == [OK, None]
    assert window.unsettled == 1


async def test_refused_record_holds_up_nobody() -> None:
    window = Window(events(2), first=0)
    window.settle(0, Result(Outcome.BAD_RECORD, "too_large"))
    window.acknowledge([1])
    assert not window.is_held_up


async def test_result_of_a_subject_goes_to_its_waiting_events_only() -> None:
    mixed = [*events(1, "A.x"), *events(2, "b")]
    window = Window(mixed, first=0)
    window.acknowledge([1])
    window.settle_subject("a.x", LATE)
    window.settle_subject("b", LATE)
    assert window.results == [LATE, OK, LATE]


async def test_wait_ends_without_progress_only() -> None:
    window = Window(events(3), first=0)
    loop = asyncio.get_running_loop()

    def settle(number: int) -> Any:
        return window.acknowledge([number])

    for number in range(3):
        loop.call_later(0.05 * (number + 1), settle, number)
    # Each answer alone comes in time; all of them together do not.
    assert await window.wait(0.1)


async def test_silent_window_gives_up() -> None:
    window = Window(events(2), first=0)
    assert not await window.wait(0.01)
    window.settle_rest(LATE)
    assert window.results == [LATE, LATE]
