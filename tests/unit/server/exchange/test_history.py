from random import Random

from tardis_machine.server.exchange.history import BookHistory, Update
from tardis_machine.sources.simulator.market import Market


def market_and_history(limit: int) -> tuple[Market, BookHistory]:
    market = Market(Random(3), 1000, 40, (1, 2) * 32)
    return market, BookHistory(market, 100, 5_000, limit)


def test_book_is_known_after_each_update() -> None:
    market, history = market_and_history(limit=50)
    expected = {}
    for number in range(1, 51):
        changes = market.change()
        history.add(Update(100 + 10 * number, 5_000 + number, changes))
        expected[number] = (dict(market.bids), dict(market.asks))

    for number, (bids, asks) in expected.items():
        by_sequence = history.at_sequence(100 + 10 * number)
        assert (by_sequence.bids, by_sequence.asks) == (bids, asks)
        assert history.at_time(5_000 + number) == by_sequence
        assert history.at_sequence(100 + 10 * number + 9) == by_sequence
    assert history.oldest == (100, 5_000)
    assert history.latest == (600, 5_050)


def test_updates_beyond_the_limit_become_part_of_the_oldest_book() -> None:
    market, history = market_and_history(limit=4)
    for number in range(1, 21):
        history.add(Update(100 + number, 5_000 + number, market.change()))

    assert history.oldest == (116, 5_016)
    latest = history.at_sequence(120)
    assert (latest.bids, latest.asks) == (market.bids, market.asks)


def test_several_updates_of_one_time_count_together() -> None:
    market, history = market_and_history(limit=10)
    for number in (1, 2):
        history.add(Update(100 + number, 5_001, market.change()))

    assert history.at_time(5_001).sequence == 102
    assert history.at_time(5_000).sequence == 100
