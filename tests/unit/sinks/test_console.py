import json

import pytest

from tardis_machine.buses.console import ConsoleSettings
from tardis_machine.buses.results import Outcome
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.sinks.console import ConsoleSink
from tests.contract.sinks import make_events


@pytest.mark.parametrize("form", ["summary", "json"])
def test_every_event_is_one_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ConsoleSettings(enable=True, format=form)  # type: ignore[arg-type]
    sink = ConsoleSink(settings, EventBusSettings())
    sink.open()
    events = make_events(settings.router(), 2)
    assert {result.outcome for result in sink.send(events)} == {Outcome.OK}
    sink.idle(0)
    sink.close(1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    prefix, _, rest = lines[1].partition(" ")
    assert prefix == "[EVENTBUS]"
    if form == "json":
        assert json.loads(rest)["price"] == 60_001.0
    else:
        assert rest.startswith(f"bitmex|XBTUSD|trade {events[1].event_id} ")
