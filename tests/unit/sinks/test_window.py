"""Batches of events in line and of keys in trouble."""

from tardis_machine.sinks.base import bytes_of
from tardis_machine.sinks.delivery.backoff import Backoff
from tardis_machine.sinks.delivery.retries import Retries, key_of_event
from tardis_machine.sinks.delivery.window import Window
from tests.unit.sinks.delivery import events

NOW = 1000.0
MANY = 1_000_000
PAUSE_SECONDS = 10.0


def make_window() -> Window:
    key_of = key_of_event(ordering="key", keeps_order=True)
    return Window(Retries(key_of, lambda: Backoff(PAUSE_SECONDS, PAUSE_SECONDS)))


def test_newer_events_go_with_the_last_ones_that_are_tried_again() -> None:
    window, offered = make_window(), events(5)
    window.retries.hold(offered[:2], NOW, has_failed=False)
    window.put(offered[2:], NOW)
    assert window.cut(NOW, MANY, MANY) == offered


def test_newer_events_wait_behind_those_whose_pause_goes_on() -> None:
    window, offered = make_window(), events(5)
    window.retries.hold(offered[:2], NOW, PAUSE_SECONDS)
    window.put(offered[2:], NOW)
    assert window.cut(NOW, MANY, MANY) == []
    assert window.cut(NOW + 2 * PAUSE_SECONDS, MANY, MANY) == offered


def test_newer_events_wait_behind_those_that_did_not_fit() -> None:
    window, offered = make_window(), events(9)
    window.retries.hold(offered[:6], NOW, has_failed=False)
    window.put(offered[6:], NOW)
    # Room is left, but not for a whole event.
    room = bytes_of(offered[:4]) + 1
    assert window.cut(NOW, MANY, room) == offered[:4]
    assert window.queued == 3
    window.retries.settle(offered[:4])
    assert window.cut(NOW, MANY, MANY) == offered[4:]


def test_key_in_trouble_lets_others_pass() -> None:
    key_of = key_of_event(ordering="key", keeps_order=False)
    window = Window(Retries(key_of, lambda: Backoff(PAUSE_SECONDS, PAUSE_SECONDS)))
    stuck, others = events(2, "ETHUSD"), events(3, "XBTUSD")
    window.retries.hold(stuck[:1], NOW, PAUSE_SECONDS)
    window.put([*stuck[1:], *others], NOW)
    assert window.cut(NOW, MANY, MANY) == others
    assert window.cut(NOW + 2 * PAUSE_SECONDS, MANY, MANY) == stuck
