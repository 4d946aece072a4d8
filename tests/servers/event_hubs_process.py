"""The Event Hubs namespace in a process of its own, which a test may kill or freeze."""

import sys
from pathlib import Path

import msgspec

from tests.servers.commands import CommandedProcess, serve_commands
from tests.servers.event_hubs import EventHubs, connection_string, make_key
from tests.servers.event_hubs_faults import Fault


class EventHubsProcess(CommandedProcess):
    """The same methods as `EventHubs`; what it acknowledged survives kill -9."""

    name = "event-hubs"
    module = "tests.servers.event_hubs_process"

    def __init__(self, *, port: int | None = None, directory: Path | None = None) -> None:
        super().__init__(port=port, directory=directory)
        self._key = make_key()

    def arguments(self) -> list[str]:
        """Return port, data directory and key for the child."""
        return [str(self.port), str(self.directory / "hubs"), self._key]

    def address_at(self, endpoint: str) -> str:
        """Return the connection string."""
        return connection_string(endpoint, self._key)

    def create_hub(self, name: str, partitions: int = 2) -> str:
        """Create a hub and return its name."""
        self.call("create_hub", name=name, partitions=partitions)
        return name

    def events_total(self, hub: str) -> int:
        """Return how many events a hub holds."""
        return int(self.call("events_total", hub=hub))

    def plan(self, *faults: Fault) -> None:
        """Spoil the next sends, one fault each, in this order."""
        self.call("plan", faults=msgspec.to_builtins(faults))

    def always(self, fault: Fault) -> None:
        """Spoil every send after the plan."""
        self.call("always", fault=msgspec.to_builtins(fault))

    def refuse_tokens(self) -> None:
        """Answer every login with 401, also the right ones."""
        self.call("refuse_tokens")

    def heal(self) -> None:
        """Bring the process back and forget every fault."""
        super().heal()
        self.call("heal")


def main(port: str, directory: str, key: str) -> None:
    """Run the namespace and take commands until the parent goes."""
    with EventHubs(port=int(port), directory=Path(directory), key=key) as hubs:
        serve_commands(
            {
                "create_hub": hubs.create_hub,
                "events_total": hubs.events_total,
                "plan": lambda faults: hubs.plan(*msgspec.convert(faults, list[Fault])),
                "always": lambda fault: hubs.always(msgspec.convert(fault, Fault)),
                "refuse_tokens": hubs.refuse_tokens,
                "heal": hubs.heal,
            }
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
