"""Credentials for Event Hubs, and the thread in which calls of its client are made.

A call of azure-eventhub can hang for ever, whatever timeout it was given. So every call is made in
a thread that is abandoned on timeout, together with its client.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.model.errors import MissingExtraError

_T = TypeVar("_T")
_Client = TypeVar("_Client")


def within(seconds: float, call: Callable[[], _T]) -> _T:
    """Return what a call returns or raise what it raises; TimeoutError when it takes too long."""
    outcome: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:
            outcome.put((None, error))

    _start(run)
    try:
        value, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"timeout after {seconds:g} s") from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]


def run_aside(call: Callable[[], object]) -> threading.Thread:
    """Make a call without waiting for its outcome."""

    def run() -> None:
        with suppress(Exception):
            call()

    return _start(run)


def _start(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="event-hubs", daemon=True)
    thread.start()
    return thread


def make_credential(settings: EventHubsSettings) -> Any:
    """Return the Entra ID credential of the settings; None with a connection string."""
    if settings.namespace is None:
        return None
    try:
        import azure.identity as identity
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "Entra ID authentication for Event Hubs requires 'azure.identity'. "
            "Run: pip install 'tardis-machine[event-hubs]'"
        ) from error
    kinds: dict[str, Callable[[], Any]] = {
        "default": identity.DefaultAzureCredential,
        "managed-identity": identity.ManagedIdentityCredential,
        "client-secret": identity.EnvironmentCredential,
        "workload": identity.WorkloadIdentityCredential,
        "cli": identity.AzureCliCredential,
    }
    return kinds[settings.credential]()


def make_client(
    kind: Callable[..., _Client],
    settings: EventHubsSettings,
    hub: str,
    credential: Any,
    **options: Any,
) -> _Client:
    """Return a client of the given kind, a producer or a consumer of one hub."""
    if settings.connection_string is None:
        return kind(settings.host, eventhub_name=hub, credential=credential, **options)
    make: Callable[..., _Client] = kind.from_connection_string  # type: ignore[attr-defined]
    return make(settings.connection_string.reveal(), eventhub_name=hub, **options)
