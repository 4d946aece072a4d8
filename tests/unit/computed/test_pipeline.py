from tardis_machine.computed.pipeline import Computables
from tardis_machine.model.data_types import computed_specs
from tardis_machine.model.ndjson import decode_lines, encode_lines
from tests.unit.computed.builders import (
    START_MS,
    at,
    change,
    disconnect,
    shown,
    snapshot,
    trade,
    triggered,
)


def kinds(records):
    return [getattr(record, "name", record.type) for record in records]


def test_each_record_is_followed_by_what_it_triggers() -> None:
    computables = Computables(computed_specs(["quote", "book_snapshot_5_6s", "trade_bar_1ticks"]))
    out = computables.apply([trade(1, 1), snapshot([(99, 1)], []), change([(98, 1)])])
    assert kinds(out) == [
        "trade",
        "trade_bar_1ticks",
        "book_change",
        "quote",
        "book_snapshot_5_6s",
        "book_change",
    ]


def test_state_lives_on_between_chunks() -> None:
    computables = Computables(computed_specs(["quote"]))
    computables.apply([snapshot([(99, 1)], [])])
    out = computables.apply([change([(99, 2)])])
    assert kinds(out) == ["book_change", "quote"]


def test_every_symbol_and_exchange_has_its_own_state() -> None:
    records = [
        snapshot([(99, 1)], []),
        change([(98, 1)], symbol="ETHUSD"),
        change([(98, 1)], exchange="deribit"),
        trade(1, 1),
        trade(1, 1, symbol="ETHUSD"),
        trade(1, 1),
    ]
    results = triggered(["book_snapshot_2_0ms", "trade_bar_2ticks"], records)
    assert [len(result) for result in results] == [1, 0, 0, 0, 0, 1]


def test_disconnect_is_forwarded_and_drops_the_state_of_its_exchange_only() -> None:
    computables = Computables(computed_specs(["quote", "trade_bar_2ticks"]))
    start = [snapshot([(99, 1)], []), snapshot([(99, 1)], [], exchange="deribit"), trade(1, 1)]
    computables.apply(start)
    gap = disconnect("bitmex")
    assert computables.apply([gap]) == [gap]
    after = [change([(99, 2)]), change([(99, 2)], exchange="deribit"), trade(2, 1)]
    assert kinds(computables.apply(after)) == ["book_change", "book_change", "quote", "trade"]


def test_book_waits_for_a_snapshot_after_a_disconnect() -> None:
    records = [snapshot([(99, 1)], []), disconnect(), snapshot([(99, 1)], [])]
    assert [len(result) for result in triggered(["quote"], records)] == [1, 0, 1]


def test_loss_drops_the_state_of_the_symbols_and_types_it_names() -> None:
    computables = Computables(computed_specs(["quote", "trade_bar_2ticks"]))
    start = [snapshot([(99, 1)], []), snapshot([(99, 1)], [], symbol="ETHUSD"), trade(1, 1)]
    computables.apply(start)
    computables.forget("bitmex", {"book_change"}, lambda symbol: symbol == "XBTUSD")
    after = [change([(99, 2)]), change([(99, 2)], symbol="ETHUSD"), trade(2, 1)]
    assert kinds(computables.apply(after)) == [
        *("book_change", "book_change", "quote", "trade", "trade_bar_2ticks")
    ]


def test_end_of_a_day_gives_what_is_due_and_drops_everything() -> None:
    names = ["trade_bar_1s", "trade_bar_7s", "trade_bar_2ticks", "quote_1s", "quote"]
    computables = Computables(computed_specs(names))
    start = [snapshot([(99, 1)], []), change([(99, 2)], ms=4_100), trade(5, 1, ms=4_200)]
    computables.apply(start)
    end_us = (START_MS + 5_000) * 1000
    due = computables.start_over(end_us)
    # The interval of seven seconds goes on, and no time fills a bar of ticks.
    assert kinds(due) == ["quote_1s", "trade_bar_1s"]
    assert {record.timestamp for record in due} == {at(5_000)}
    assert {record.local_time_us for record in due} == {end_us - 1}
    assert shown(due[0].decoded())[0] == [(99, 2)]
    assert (due[1].open, due[1].trades) == (5, 1)
    after = [change([(99, 3)], ms=5_100), trade(6, 1, ms=5_200), trade(7, 1, ms=5_300)]
    out = computables.apply(after)
    # The book waits for a snapshot.
    assert "quote" not in kinds(out)
    bar = out[-1]
    assert (bar.name, bar.open, bar.trades) == ("trade_bar_2ticks", 6, 2)


def test_nothing_is_due_at_the_end_of_a_day_without_changes() -> None:
    computables = Computables(computed_specs(["quote_1s", "book_snapshot_2_0ms", "trade_bar_1s"]))
    computables.apply([snapshot([(99, 1)], [])])
    assert computables.start_over((START_MS + 5_000) * 1000) == []


def test_computed_records_read_back_from_the_wire() -> None:
    computables = Computables(computed_specs(["book_snapshot_2_0ms", "trade_bar_1ticks"]))
    out = computables.apply([snapshot([(99.5, 1)], [(1e-7, 1e16)]), trade(1, 0)])
    read = decode_lines(encode_lines(out))
    assert shown(read[1]) == shown(out[1].decoded())
    assert read[3] == out[3]


def test_records_without_computed_types_pass_unchanged() -> None:
    records = [trade(1, 1), snapshot([(99, 1)], []), disconnect()]
    assert Computables([]).apply(records) == records
