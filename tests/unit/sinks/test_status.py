"""When a bus is said to be lost."""

import msgspec
import pytest

from tardis_machine.sinks.reporting.status import CONNECTING, OUT_OF_REACH_SECONDS, BusState


@pytest.mark.parametrize(
    ("state", "seconds", "expected"),
    [
        (BusState.CONNECTING, OUT_OF_REACH_SECONDS + 1, True),
        (BusState.DEGRADED, OUT_OF_REACH_SECONDS + 1, True),
        (BusState.DEGRADED, OUT_OF_REACH_SECONDS - 1, False),
        (BusState.UP, OUT_OF_REACH_SECONDS + 1, False),
        (BusState.SATURATED, OUT_OF_REACH_SECONDS + 1, False),
    ],
)
def test_bus_is_out_of_reach_when_it_is_down_for_long(
    state: BusState, seconds: float, expected: bool
) -> None:
    status = msgspec.structs.replace(CONNECTING, state=state, state_seconds=seconds)
    assert status.is_out_of_reach is expected
