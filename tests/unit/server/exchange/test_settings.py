import pytest

from tardis_machine.model.errors import SettingsError
from tardis_machine.server.exchange.faults import FaultKind, parse_rule
from tardis_machine.server.exchange.settings import ExchangeSettings


@pytest.mark.parametrize(
    ("text", "kind", "value", "chance", "every_seconds"),
    [
        ("close=0.01", FaultKind.CLOSE, None, 0.01, None),
        ("close:1012=30s", FaultKind.CLOSE, 1012, None, 30.0),
        ("stall=.5", FaultKind.STALL, None, 0.5, None),
        ("rate-limit:3=1", FaultKind.RATE_LIMIT, 3, 1.0, None),
        ("refuse:429=2.5s", FaultKind.REFUSE, 429, None, 2.5),
    ],
)
def test_rule_is_read(
    text: str, kind: FaultKind, value: int | None, chance: float, every_seconds: float
) -> None:
    rule = parse_rule(text)
    assert (rule.kind, rule.value) == (kind, value)
    assert (rule.chance, rule.every_seconds) == (chance, every_seconds)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("close", "must be a kind with a chance or a time"),
        ("close=", "must be a kind with a chance or a time"),
        ("close=.", "must be a kind with a chance or a time"),
        ("close=2", "a chance is above 0 and at most 1"),
        ("close=0", "a chance is above 0"),
        ("close=0s", "a time above 0 s"),
        ("clothe=0.1", "Unknown fault 'clothe'. Did you mean 'close'?"),
        ("close:99=0.1", "takes a close code from 1000 to 4999, not 99"),
        ("stall:5=0.1", "takes no number"),
    ],
)
def test_rule_that_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        ExchangeSettings(faults=(text,))
    assert problem in str(raised.value)


@pytest.mark.parametrize("speed", [0.0, -1.0, 1001.0])
def test_speed_outside_its_range_is_refused(speed: float) -> None:
    with pytest.raises(SettingsError, match="speed must be above 0"):
        ExchangeSettings(speed=speed)
