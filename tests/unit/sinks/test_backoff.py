from tardis_machine.sinks.delivery.backoff import Backoff


def longest(low: float, high: float) -> float:
    return high


def test_pauses_double_up_to_the_limit_and_start_over_after_a_success() -> None:
    backoff = Backoff(0.1, 1.0, longest)
    assert [round(backoff.next(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert backoff.is_circuit_open
    backoff.reset()
    assert not backoff.is_circuit_open
    assert backoff.next() == 0.1


def test_pause_is_drawn_from_its_whole_range() -> None:
    backoff = Backoff(1.0, 1.0)
    pauses = [backoff.next() for _ in range(200)]
    assert min(pauses) < 0.2
    assert 0.8 < max(pauses) <= 1.0


def test_pause_is_at_least_what_the_bus_asks_for() -> None:
    assert Backoff(0.1, 1.0, longest).next(at_least=4.0) == 4.0


def test_parked_destination_is_tried_less_often() -> None:
    backoff = Backoff(5.0, 5.0, longest)
    assert [backoff.next(is_parked=True) for _ in range(3)] == [5.0, 10.0, 15.0]
    slow = Backoff(100.0, 100.0, longest)
    assert slow.next(is_parked=True) == 30.0


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(0.1, 10.0, longest)
    backoff.failures = 100_000
    assert backoff.next() == 10.0
