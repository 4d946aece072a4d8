import msgspec

from tardis_machine.server.status import bus_health
from tardis_machine.sinks.reporting.status import CONNECTING


def test_password_in_an_error_of_a_bus_is_not_part_of_the_health_check() -> None:
    error = "unreachable: Error -2 connecting to redis://:hunter2@h:6379. Name not known."
    status = msgspec.structs.replace(CONNECTING, last_error=error)
    health = bus_health({"redis": status})
    assert isinstance(health, dict)
    assert health["redis"].last_error == error.replace("hunter2", "***")
