"""Delays before the next connection."""

from tardis_machine.sources.live.backoff import LONGEST_SECONDS, STABLE_SECONDS, Backoff


def slowest() -> float:
    return 1.0


def test_failures_in_a_row_wait_longer_up_to_a_limit() -> None:
    backoff = Backoff(slowest)
    delays = [backoff.after_failure(0) for _ in range(8)]
    assert delays == [1, 2, 4, 8, 16, 32, 32, 32]


def test_closes_in_a_row_wait_too() -> None:
    backoff = Backoff(slowest)
    delays = [backoff.after_close(0) for _ in range(12)]
    assert delays[:4] == [0.1, 0.2, 0.4, 0.8]
    assert delays[-1] == LONGEST_SECONDS


def test_chance_spreads_reconnects() -> None:
    assert Backoff(lambda: 0.0).after_failure(0) == 0.5
    assert Backoff(slowest).after_failure(0) == 1.0


def test_long_life_ends_the_series() -> None:
    backoff = Backoff(slowest)
    for _ in range(5):
        backoff.after_failure(0)
    assert backoff.after_failure(STABLE_SECONDS) == 1
    assert backoff.after_failure(STABLE_SECONDS - 1) == 2


def test_exchange_that_asks_for_more_time_gets_it() -> None:
    assert Backoff(slowest).after_failure(0, wait_seconds=120) == 120


def test_thousands_of_failures_do_no_harm() -> None:
    backoff = Backoff(slowest)
    assert max(backoff.after_failure(0) for _ in range(5000)) == LONGEST_SECONDS
