"""Backlogs on disk: what is said of them, to whom they are given, and how they are given up."""

from pathlib import Path

import pytest

from tardis_machine.buses.reasons import Reason
from tardis_machine.buses.results import Outcome, Result
from tardis_machine.model.errors import RequestError
from tardis_machine.sinks.delivery.parking.destination import POSITION
from tardis_machine.sinks.memory import MemorySink
from tardis_machine.sinks.publisher.backlog_changes import discard, discard_parked, hand_over
from tardis_machine.sinks.publisher.backlogs import Backlog, BacklogState, find_backlogs
from tardis_machine.sinks.storage.directory import LogReader, find_logs
from tardis_machine.sinks.storage.outcomes import Settled
from tardis_machine.sinks.storage.positions import read_position
from tests.contract.event_logs import EventLog, now_us
from tests.contract.test_memory_sink import MemorySettings
from tests.unit.sinks.delivery import deliver, events, ids, running, wait_until

HERE = LogReader("memory", MemorySettings().endpoint)
ELSEWHERE = LogReader("memory", "elsewhere")


def backlogs(root: Path, *configured: LogReader) -> list[Backlog]:
    return list(find_backlogs(root, configured, "tester", now_us))


def left_log(root: Path, count: int, *readers: LogReader) -> EventLog:
    """Write events for some readers and end the writer."""
    log = EventLog(root, *readers)
    log.append(events(count))
    log.close()
    return log


def test_backlog_says_how_much_waits_since_when_and_who_sends_it(tmp_path: Path) -> None:
    log = EventLog(tmp_path, HERE)
    log.append(events(250))
    (found,) = backlogs(tmp_path, HERE)
    assert found.state is BacklogState.ACTIVE
    assert (found.waiting_events, found.events, found.position) == (250, 250, 0)
    assert found.waiting_bytes == found.end > 0
    assert 0 <= found.lag_seconds < 600
    log.close()
    assert [each.state for each in backlogs(tmp_path, HERE)] == [BacklogState.WAITING]
    assert [each.state for each in backlogs(tmp_path, ELSEWHERE)] == [BacklogState.STRANDED]
    others = find_backlogs(tmp_path, [HERE], "somebody", now_us)
    assert [each.state for each in others] == [BacklogState.OTHER_PRODUCER]


def test_what_was_delivered_does_not_wait(tmp_path: Path) -> None:
    with running(MemorySink(), tmp_path) as bus:
        deliver(bus, events(120))
        (found,) = backlogs(tmp_path, bus.reader)
        assert found.waiting_events == 0
        assert found.lag_seconds == 0.0
        assert found.settled == {"delivered": 120}
        bus.log.close()


def test_backlog_that_is_handed_over_is_sent_to_the_endpoint_of_now(tmp_path: Path) -> None:
    made = events(300)
    log = left_log(tmp_path, 300, ELSEWHERE)
    assert hand_over(tmp_path, backlogs(tmp_path, HERE), HERE) == 300
    (directory,) = find_logs(tmp_path)
    assert directory.owner.readers == (HERE,)
    log.directory = directory
    sink = MemorySink()
    with running(sink, tmp_path, log=log) as bus:
        wait_until(lambda: bus.is_empty)
    assert ids(sink.stored) == ids(made)


def test_handed_over_backlog_goes_on_where_it_was(tmp_path: Path) -> None:
    left_log(tmp_path, 100, ELSEWHERE, HERE)
    first, _ = backlogs(tmp_path)
    assert discard(tmp_path, [first]) == 100
    third = LogReader("memory", "third")
    hand_over(tmp_path, [each for each in backlogs(tmp_path) if each.reader == ELSEWHERE], third)
    found = {each.endpoint: each.waiting_events for each in backlogs(tmp_path)}
    assert found == {"third": 0, HERE.endpoint: 100}


def test_discarded_backlog_is_counted_and_its_log_removed_when_nobody_needs_it(
    tmp_path: Path,
) -> None:
    log = left_log(tmp_path, 250, HERE, ELSEWHERE)
    (stranded,) = (each for each in backlogs(tmp_path, HERE) if each.reader == ELSEWHERE)
    assert discard(tmp_path, [stranded]) == 250
    position = read_position(log.directory.position_path(ELSEWHERE))
    assert position is not None
    assert position.count(Settled.DISCARDED) == 250
    found = {each.endpoint: each.waiting_events for each in backlogs(tmp_path, HERE)}
    assert found == {HERE.endpoint: 250, "elsewhere": 0}
    assert discard(tmp_path, [each for each in backlogs(tmp_path) if each.reader == HERE]) == 250
    assert list(find_logs(tmp_path)) == []


@pytest.mark.parametrize("is_written", [True, False])
def test_backlog_in_use_is_left_alone(tmp_path: Path, is_written: bool) -> None:
    log = EventLog(tmp_path, HERE)
    log.append(events(10))
    lock = log.directory.lock_reader(HERE)
    assert lock is not None
    if is_written:
        lock.release()
    else:
        log.close()
    found = backlogs(tmp_path)
    for change in (lambda: discard(tmp_path, found), lambda: hand_over(tmp_path, found, ELSEWHERE)):
        with pytest.raises(RequestError, match="is in use by a running process"):
            change()
    assert [each.waiting_events for each in backlogs(tmp_path)] == [10]


def test_parked_events_are_shown_by_destination_and_can_be_given_up(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.judge = lambda _: Result(Outcome.BAD_DESTINATION, Reason.NO_DESTINATION)
    with running(sink, tmp_path) as bus:
        bus.log.append(events(30))
        bus.ring()
        wait_until(lambda: bus.status().parked == 30)
        bus.log.close()
    (found,) = backlogs(tmp_path, bus.reader)
    (parked,) = found.parked
    assert (parked.destination, parked.events, found.waiting_events) == ("bronze", 30, 0)
    assert parked.bytes > 0
    assert discard_parked(tmp_path, [found], "another") == 0
    assert discard_parked(tmp_path, [found], "bronze") == 30
    assert not Path(parked.directory, POSITION).exists()
    assert backlogs(tmp_path) == []


def test_log_that_is_removed_meanwhile_is_left_out(tmp_path: Path) -> None:
    left_log(tmp_path, 10, HERE)
    removed = left_log(tmp_path, 10, ELSEWHERE)
    (segment,) = removed.directory.path.glob("*.chunks")
    # Its name is there and the file is not, as between two steps of whoever removes it.
    segment.unlink()
    segment.symlink_to("nowhere")
    assert [each.reader for each in backlogs(tmp_path)] == [HERE]
