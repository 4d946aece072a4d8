"""Options of the Event Hubs bus: what is derived, what is refused, what is never shown."""

import sys
import threading
from pathlib import Path
from typing import Any

import azure.identity
import pytest
from azure.eventhub import TransportType

from tardis_machine.app.settings.loading import load_settings
from tardis_machine.buses.carriers import as_kafka, carrier
from tardis_machine.buses.event_hubs.client import make_credential, within
from tardis_machine.buses.event_hubs.connections import client_options, make_connections
from tardis_machine.buses.event_hubs.settings import EventHubsSettings
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.buses.registry import PublishingSettings, missing_client
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import MissingExtraError, SettingsError
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.kafka.sink import KafkaSink
from tardis_machine.sinks.registry import make_sink

STRING = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey=s3cret="
ON: dict[str, Any] = {"connection_string": Secret(STRING), "event_hub_name": "bronze"}


def problems(**options: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        EventHubsSettings(**{**ON, **options})
    return caught.value.problems


def test_nothing_given_is_off_and_valid() -> None:
    assert not EventHubsSettings().is_on


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"event_hub_name": None},
            "event-hubs-event-hub-name is required when event-hubs-connection-string is set.",
        ),
        (
            {"connection_string": None, "namespace": "n.x", "event_hub_name": None},
            "event-hubs-event-hub-name is required when event-hubs-namespace is set.",
        ),
        (
            {"connection_string": Secret("Endpoint=sb://x;SharedAccessKey=s3cret")},
            "event-hubs-connection-string must contain Endpoint=sb://",
        ),
        (
            {"connection_string": Secret("SharedAccessSignature=s3cret")},
            "event-hubs-connection-string must contain Endpoint=sb://",
        ),
        ({"connection_string": Secret("s3cret")}, "event-hubs-connection-string must contain"),
        (
            {"namespace": "ns.servicebus.windows.net"},
            "Give event-hubs-connection-string or event-hubs-namespace, not both.",
        ),
        (
            {"connection_string": None, "namespace": "a b"},
            "event-hubs-namespace must be a host",
        ),
        ({"event_hub_name": "a/b"}, 'event-hubs-event-hub-name: "a/b" is not a valid hub name'),
        (
            {"event_hub_routing": {"nope": "x"}},
            "Unknown payload case(s) for event-hubs-event-hub-routing: nope.",
        ),
        (
            {"partition_key_template": "{{x}}"},
            'Unknown event-hubs-partition-key-template placeholder "{{x}}".',
        ),
        (
            {"transport": "kafka", "custom_endpoint": "x"},
            "event-hubs-custom-endpoint must be host:port with event-hubs-transport=kafka.",
        ),
        (
            {"transport": "kafka", "proxy": Secret("http://proxy")},
            "event-hubs-proxy has no effect with event-hubs-transport=kafka; remove it.",
        ),
        (
            {"transport": "kafka", "max_record_bytes": 500},
            "event-hubs-max-record-bytes must be at least 1000 with event-hubs-transport=kafka.",
        ),
        (
            {"transport": "kafka", "connection_string": None, "namespace": "n.x"},
            "event-hubs-transport=kafka requires event-hubs-connection-string.",
        ),
        ({"proxy": Secret("nonsense")}, "event-hubs-proxy must be an http URL with a host."),
        ({"ca": Path("no-such-file")}, "event-hubs-ca: no-such-file is not a file."),
        (
            {"static_headers": {"eventId": "x"}},
            'event-hubs-static-headers cannot override reserved header "eventId".',
        ),
    ],
)
def test_fault_is_named_without_its_secret(options: dict[str, Any], expected: str) -> None:
    found = problems(**options)
    assert any(problem.startswith(expected) for problem in found)
    assert not any("s3cret" in problem for problem in found)


def test_hub_comes_from_the_connection_string() -> None:
    settings = EventHubsSettings(connection_string=Secret(f"{STRING};EntityPath=from-string"))
    assert settings.base_hub == "from-string"
    assert settings.host == "ns.servicebus.windows.net"
    named = EventHubsSettings(connection_string=settings.connection_string, event_hub_name="own")
    assert named.base_hub == "own"


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(EventHubsSettings(**ON, proxy=Secret("http://u:pr0xy@h:1")))
    assert "s3cret" not in shown
    assert "pr0xy" not in shown


def test_every_name_of_an_option_is_understood() -> None:
    words = [
        f"--event-hubs-connection-string={STRING}",
        "--event-hubs-hub=h",
        "--event-hubs-routing=trade:t",
        "--event-hubs-static-properties=env:test",
    ]
    hubs = load_settings(PublishingSettings, words, {"TM_EVENT_HUBS_CA": ""}).settings.event_hubs
    assert hubs.connection_string == Secret(STRING)
    assert (hubs.base_hub, hubs.event_hub_routing) == ("h", {"trade": "t"})
    assert hubs.static_headers == {"env": "test"}


def test_proxy_makes_it_a_websocket_and_its_login_is_decoded() -> None:
    settings = EventHubsSettings(**ON, proxy=Secret("http://us%40er:p%3Aw@proxy:3128"))
    options = client_options(settings, make_connections(settings))
    assert options["transport_type"] is TransportType.AmqpOverWebsocket
    assert options["http_proxy"] == {
        "proxy_hostname": "proxy",
        "proxy_port": 3128,
        "username": "us@er",
        "password": "p:w",
    }


def test_clients_own_retries_are_off() -> None:
    settings = EventHubsSettings(**ON)
    options = client_options(settings, make_connections(settings))
    assert (options["retry_total"], options["retry_backoff_factor"]) == (0, 0)
    assert options["transport_type"] is TransportType.Amqp


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("default", azure.identity.DefaultAzureCredential),
        ("managed-identity", azure.identity.ManagedIdentityCredential),
        ("client-secret", azure.identity.EnvironmentCredential),
        ("cli", azure.identity.AzureCliCredential),
    ],
)
def test_credential_is_of_the_kind_asked_for(name: Any, kind: type) -> None:
    settings = EventHubsSettings(namespace="n.x", event_hub_name="h", credential=name)
    credential = make_credential(settings)
    assert isinstance(credential, kind)
    getattr(credential, "close", lambda: None)()
    assert make_credential(EventHubsSettings(**ON)) is None


def test_kafka_transport_is_carried_by_the_kafka_sink() -> None:
    settings = EventHubsSettings(
        **ON, transport="kafka", event_hub_routing={"trade": "t"}, static_headers={"env": "test"}
    )
    carried = carrier(settings)
    assert isinstance(carried, KafkaSettings)
    assert carried.brokers == ("ns.servicebus.windows.net:9093",)
    assert (carried.topic, carried.topic_routing) == ("bronze", {"trade": "t"})
    assert (carried.protocol, carried.sasl_username) == ("sasl_ssl", "$ConnectionString")
    assert carried.sasl_password == settings.connection_string
    assert carried.static_headers == {"env": "test"}
    assert isinstance(make_sink(settings, EventBusSettings()), KafkaSink)
    assert list(missing_client(settings)) == []


def test_kafka_transport_may_go_to_another_endpoint() -> None:
    settings = EventHubsSettings(**ON, transport="kafka", custom_endpoint="gateway:19093")
    assert as_kafka(settings).brokers == ("gateway:19093",)
    # Reading is always by AMQP, for which that endpoint is none.
    assert "custom_endpoint_address" not in client_options(settings, make_connections(settings))


def test_emulator_is_reached_without_tls_at_its_own_port() -> None:
    string = STRING.replace("ns.servicebus.windows.net", "localhost:5672")
    options = {**ON, "connection_string": Secret(f"{string};UseDevelopmentEmulator=true;")}
    carried = as_kafka(EventHubsSettings(**options, transport="kafka"))
    assert (carried.brokers, carried.protocol) == (("localhost:9092",), "sasl_plaintext")


def test_limits_of_the_service_hold_by_kafka() -> None:
    carried = as_kafka(EventHubsSettings(**ON, transport="kafka"))
    assert (carried.max_batch_bytes, carried.max_record_bytes) == (1_000_000, 1_000_000)
    # A call per thousand events, as by AMQP, costs more than it saves.
    assert (carried.max_batch_size, EventHubsSettings(**ON).batch_events) == (10_000, 1000)
    options = {"max_batch_bytes": 9_000_000, "max_record_bytes": 5000, "max_in_flight": 60}
    carried = as_kafka(EventHubsSettings(**ON, transport="kafka", **options))
    assert (carried.max_batch_bytes, carried.max_record_bytes) == (1_000_000, 5000)
    assert (carried.requests_in_flight, carried.compression) == (5, "none")
    assert int(carried.config["connections.max.idle.ms"]) < 240_000


class WithoutClient(EventHubsSettings):
    client = "no_such_package.module"


def test_missing_client_names_the_line_that_installs_it() -> None:
    (problem,) = missing_client(WithoutClient(**ON))
    assert problem == (
        "Event Hubs publishing requires 'no_such_package.module'. "
        "Run: pip install 'tardis-machine[event-hubs]'"
    )


def test_missing_identity_names_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)
    settings = EventHubsSettings(namespace="n.x", event_hub_name="h")
    with pytest.raises(MissingExtraError, match=r"pip install 'tardis-machine\[event-hubs\]'"):
        make_credential(settings)


def test_other_transports_carry_themselves() -> None:
    settings = EventHubsSettings(**ON)
    assert carrier(settings) is settings


def test_call_that_takes_too_long_is_left_behind() -> None:
    release = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.01, lambda: release.wait(30))
    release.set()
    assert within(5, lambda: 7) == 7
    with pytest.raises(ValueError, match="inner"):
        within(5, raise_inner)


def raise_inner() -> None:
    raise ValueError("inner")
