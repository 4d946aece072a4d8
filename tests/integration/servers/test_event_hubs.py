"""The Event Hubs namespace of the tests, seen by azure-eventhub."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from azure.eventhub.aio import EventHubProducerClient as AioProducerClient
from azure.eventhub.exceptions import (
    AuthenticationError,
    ConnectError,
    ConnectionLostError,
    EventDataSendError,
    EventHubError,
)

from tests.servers.event_hubs import EventHubs
from tests.servers.event_hubs_faults import DETACH_FORCED, SERVER_BUSY, Fault, Hang, Release
from tests.servers.event_hubs_process import EventHubsProcess
from tests.servers.faults import AbortAfter, AbortBefore, Delay
from tests.servers.readers import read_event_hub
from tests.servers.tcp_proxy import MakeProxy

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("unclosed_sockets_allowed")]

SEND_SECONDS = 240


@contextmanager
def producer(address: str, hub: str) -> Iterator[EventHubProducerClient]:
    client = EventHubProducerClient.from_connection_string(
        address, eventhub_name=hub, retry_total=0
    )
    try:
        yield client
    finally:
        client.close()


def send(client: EventHubProducerClient, *values: str, key: str = "k") -> None:
    batch = client.create_batch(partition_key=key)
    for value in values:
        event = EventData(value.encode())
        event.properties = {"payloadCase": "trade"}
        event.message_id = f"id-{value}"
        batch.add(event)
    client.send_batch(batch, timeout=SEND_SECONDS)


def send_once(address: str, hub: str, *values: str) -> None:
    with producer(address, hub) as client:
        send(client, *values)


async def test_sent_events_are_read_back_in_order(event_hubs: EventHubs, event_hub: str) -> None:
    values = [str(n) for n in range(200)]
    send_once(event_hubs.address, event_hub, *values)
    records = await read_event_hub(event_hubs.address, event_hub)
    assert [record.value.decode() for record in records] == values
    assert {record.key for record in records} == {"k"}
    assert records[7].headers == {"payloadCase": "trade", "message_id": "id-7"}


async def test_aio_producer_reaches_the_partition_it_names(
    event_hubs: EventHubs, event_hub: str
) -> None:
    async with AioProducerClient.from_connection_string(
        event_hubs.address, eventhub_name=event_hub
    ) as client:
        for number in await client.get_partition_ids():
            batch = await client.create_batch(partition_id=number)
            batch.add(EventData(number))
            await client.send_batch(batch)
    assert event_hubs.bodies(event_hub) == [[b"0"], [b"1"]]


def test_killed_process_comes_back_with_its_events() -> None:
    with EventHubsProcess() as namespace:
        namespace.create_hub("h", partitions=1)
        send_once(namespace.address, "h", "before")
        namespace.kill()
        namespace.start()
        with producer(namespace.address, "h") as client:
            send(client, "after")
            place = client.get_partition_properties("0")
        assert place["last_enqueued_sequence_number"] == 1
        assert namespace.events_total("h") == 2


def test_stopped_listener_comes_back_with_its_events(event_hubs: EventHubs, event_hub: str) -> None:
    send_once(event_hubs.address, event_hub, "before")
    event_hubs.stop()
    with pytest.raises(ConnectError):
        send_once(event_hubs.address, event_hub, "meanwhile")
    event_hubs.start()
    send_once(event_hubs.address, event_hub, "after")
    assert [b"before", b"after"] in event_hubs.bodies(event_hub)


@pytest.mark.parametrize("pausable", ["event_hubs", "process"])
def test_paused_namespace_answers_after_it_is_resumed(
    pausable: str, request: pytest.FixtureRequest
) -> None:
    with EventHubsProcess() as process:
        namespace = process if pausable == "process" else request.getfixturevalue(pausable)
        hub = namespace.create_hub(f"pause-{pausable}")
        with producer(namespace.address, hub) as client:
            namespace.plan(Delay(0.01))
            send(client, "before")
            namespace.pause()
            late = threading.Thread(target=send, args=(client, "late"))
            late.start()
            late.join(0.2)
            assert late.is_alive()
            namespace.resume()
            late.join(SEND_SECONDS)
        assert namespace.events_total(hub) == 2


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (SERVER_BUSY, EventDataSendError),
        (DETACH_FORCED, ConnectionLostError),
    ],
)
def test_refused_send_stores_nothing(
    event_hubs: EventHubs, event_hub: str, fault: Fault, error: type[Exception]
) -> None:
    with producer(event_hubs.address, event_hub) as client:
        event_hubs.always(fault)
        with pytest.raises(error):
            send(client, "out")
        assert event_hubs.events_total(event_hub) == 0
        event_hubs.heal()
        send(client, "in")
    assert event_hubs.events_total(event_hub) == 1


def test_broken_connection_makes_the_client_send_once_more(
    event_hubs: EventHubs, event_hub: str
) -> None:
    event_hubs.plan(AbortBefore(), AbortAfter())
    with pytest.raises(EventHubError):
        send_once(event_hubs.address, event_hub, "again")
    assert event_hubs.events_total(event_hub) == 1


def test_unanswered_sends_hang_until_the_connection_breaks(
    event_hubs: EventHubs, event_hub: str
) -> None:
    before = event_hubs.sends_total
    event_hubs.plan(Release(), Hang())
    event_hubs.always(Hang())
    with ExitStack() as clients:
        hanging = [
            threading.Thread(target=send_in_vain, args=(client,))
            for client in (
                clients.enter_context(producer(event_hubs.address, event_hub)) for _ in range(2)
            )
        ]
        for thread in hanging:
            thread.start()
        while event_hubs.sends_total < before + len(hanging):
            hanging[0].join(0.01)
        hanging[0].join(0.3)
        assert all(thread.is_alive() for thread in hanging)
        event_hubs.stop()
        for thread in hanging:
            thread.join(SEND_SECONDS)
        assert not any(thread.is_alive() for thread in hanging)


def send_in_vain(client: EventHubProducerClient) -> None:
    with pytest.raises(EventHubError):
        send(client, "never")


def test_wrong_key_and_refused_tokens_are_authentication_errors(
    event_hubs: EventHubs, event_hub: str
) -> None:
    with pytest.raises(AuthenticationError):
        send_once(event_hubs.address.replace("SharedAccessKey=", "SharedAccessKey=x"), event_hub)
    event_hubs.refuse_tokens()
    with pytest.raises(AuthenticationError):
        send_once(event_hubs.address, event_hub, "out")


def test_missing_hub_is_not_found(event_hubs: EventHubs) -> None:
    with pytest.raises(EventHubError, match=r"NotFound|not-found"):
        send_once(event_hubs.address, "nowhere", "out")


def test_client_works_through_a_tcp_proxy(
    event_hubs: EventHubs, event_hub: str, tcp_proxy: MakeProxy
) -> None:
    proxy = tcp_proxy(event_hubs.endpoint)
    send_once(event_hubs.address_at(proxy.endpoint), event_hub, "through")
    assert proxy.connections_total == 1
    assert event_hubs.events_total(event_hub) == 1
