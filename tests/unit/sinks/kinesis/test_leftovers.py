"""Which records of a key go again by themselves."""

from tardis_machine.sinks.kinesis.leftovers import Leftovers
from tests.unit.sinks.delivery import events


def test_events_that_failed_lead_their_key() -> None:
    leftovers, batch = Leftovers(), events(6)
    leftovers.note(batch, {1, 3})
    assert leftovers.leading([batch[1], batch[3], batch[4]]) == 2
    assert leftovers.leading(batch[4:]) == 0


def test_rest_of_what_failed_is_remembered_when_a_batch_holds_a_part_of_it() -> None:
    leftovers, batch = Leftovers(), events(6)
    leftovers.note(batch, {1, 3, 5})
    leftovers.note([batch[1]], set())
    assert leftovers.leading([batch[3], batch[5]]) == 2
    leftovers.note([batch[3], batch[5]], {1})
    assert leftovers.leading([batch[5], *events(1, first=6)]) == 1


def test_keys_do_not_hold_up_one_another() -> None:
    leftovers, batch = Leftovers(), events(4, "XBTUSD", "ETHUSD")
    leftovers.note(batch, {0})
    assert leftovers.leading(batch[::2]) == 1
    assert leftovers.leading(batch[1::2]) == 0
