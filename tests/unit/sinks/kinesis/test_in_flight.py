"""Which records go into which call, and what becomes of those behind a failed one."""

from collections.abc import Sequence

from tardis_machine.buses.results import OK, Outcome, Result
from tardis_machine.sinks.kinesis.in_flight import HELD_BACK, Lane, Plan
from tardis_machine.sinks.kinesis.records import Record
from tardis_machine.sinks.kinesis.shards import Shards

THROTTLED = Result(Outcome.TRANSIENT, "throttled")
BAD = Result(Outcome.BAD_RECORD, "too_large")


def lane(
    places: Sequence[int],
    *,
    stream: str = "s",
    size: int = 10,
    shards: object = None,
    leading: int = 0,
) -> Lane:
    records = [Record([place], {"n": place}, size, 0) for place in places]
    return Lane(stream, records, shards, leading)  # type: ignore[arg-type]


def plan(*lanes: Lane, per_lane: int = 500, max_records: int = 500, max_bytes: int = 10**6) -> Plan:
    events = sum(len(one.records) for one in lanes)
    return Plan(events, lanes, per_lane=per_lane, max_records=max_records, max_bytes=max_bytes)


def places(call: object) -> list[int]:
    assert call is not None
    return [place for _, record in call.records for place in record.places]  # type: ignore[attr-defined]


def test_keys_are_in_one_call_at_a_time() -> None:
    made = plan(lane([0, 1, 2]), lane([3, 4]), max_records=2)
    first, second = made.next_call(), made.next_call()
    assert (places(first), places(second)) == ([0, 1], [3, 4])
    # The rest of the first key waits for its first call.
    assert made.next_call() is None
    assert first is not None
    made.finish(first, [OK, OK])
    assert places(made.next_call()) == [2]


def test_strict_order_takes_one_record_of_each_key() -> None:
    made = plan(lane([0, 1]), lane([2, 3]), per_lane=1)
    call = made.next_call()
    assert places(call) == [0, 2]
    assert call is not None
    made.finish(call, [OK, THROTTLED])
    assert places(made.next_call()) == [1]
    assert made.results()[2:] == [THROTTLED, HELD_BACK]


def test_failed_record_holds_back_what_was_not_sent_of_its_key() -> None:
    made = plan(lane([0, 1, 2, 3]), max_records=2)
    call = made.next_call()
    assert call is not None
    made.finish(call, [THROTTLED, OK])
    assert made.next_call() is None
    assert made.results() == [THROTTLED, OK, HELD_BACK, HELD_BACK]


def test_records_that_failed_before_share_no_call_with_newer_ones_of_their_key() -> None:
    made = plan(lane([0, 1, 2, 3], leading=2), lane([4]))
    call = made.next_call()
    assert places(call) == [0, 1, 4]
    assert call is not None
    made.finish(call, [OK, OK, OK])
    assert places(made.next_call()) == [2, 3]


def test_only_records_that_were_sent_count_as_failed() -> None:
    made = plan(lane([0, 1, 2, 3, 4], leading=3), max_records=2)
    call = made.next_call()
    assert call is not None
    made.finish(call, [OK, THROTTLED])
    # The third failed before this batch and was not sent again.
    assert made.failed == {1, 2}
    assert made.results()[2:] == [HELD_BACK] * 3


def test_bad_record_holds_back_nobody() -> None:
    made = plan(lane([0, 1]), per_lane=1)
    call = made.next_call()
    assert call is not None
    made.finish(call, [BAD])
    assert places(made.next_call()) == [1]


def test_call_keeps_to_its_bytes_but_takes_one_record_at_least() -> None:
    made = plan(lane([0, 1, 2], size=60), max_bytes=100)
    assert places(made.next_call()) == [0]
    alone = plan(lane([0], size=600), max_bytes=100)
    assert places(alone.next_call()) == [0]


def test_call_has_one_stream() -> None:
    made = plan(lane([0], stream="a"), lane([1], stream="b"), lane([2], stream="a"))
    assert places(made.next_call()) == [0, 2]
    assert places(made.next_call()) == [1]


def test_shard_at_its_limit_waits_while_others_go() -> None:
    spent = Shards([{"ShardId": "x", "HashKeyRange": {"StartingHashKey": "0"}}], 1.0)
    bucket = spent.bucket(0)
    assert bucket is not None
    bucket.take(50_000_000)
    made = plan(lane([0], shards=spent), lane([1]))
    assert places(made.next_call()) == [1]
    assert made.next_call() is None
    assert made.is_waiting


def test_stopped_plan_gives_the_rest_the_same_result() -> None:
    made = plan(lane([0]), lane([1, 2]), max_records=1)
    call = made.next_call()
    assert call is not None
    made.stop(THROTTLED)
    made.finish(call, [OK])
    assert made.results() == [OK, THROTTLED, THROTTLED]
    assert not made.is_waiting
