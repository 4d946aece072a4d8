from weakref import ref

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.bronze.series import Origin, PerSeries, Series


def make_series(symbol: str = "XBTUSD") -> Series:
    return Series(
        case=PayloadCase.TRADE,
        exchange="bitmex",
        symbol=symbol,
        name="",
        source="tester",
        origin=Origin.REPLAY,
        meta={},
    )


def test_what_is_derived_is_made_once_for_each_series() -> None:
    made: list[str] = []
    label = PerSeries(lambda series: made.append(series.symbol) or series.label)
    one, other = make_series(), make_series("ETHUSD")
    assert [label[one], one.derived[label], label[other]] == [one.label, one.label, other.label]
    assert made == ["XBTUSD", "ETHUSD"]


def test_several_makers_do_not_meet() -> None:
    symbol, exchange = PerSeries(lambda each: each.symbol), PerSeries(lambda each: each.exchange)
    series = make_series()
    assert (symbol[series], exchange[series]) == ("XBTUSD", "bitmex")


def test_series_goes_with_its_last_event_and_takes_along_what_was_derived() -> None:
    class Head:
        """What a sink makes of a series."""

    heads = PerSeries(lambda _: Head())
    series = make_series()
    kept = [ref(series), ref(heads[series])]
    del series
    assert [each() for each in kept] == [None, None]
