"""Settings of publishing: what is refused, what one bus may have for itself."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tardis_machine.app.settings.commands import ServeSettings
from tardis_machine.app.settings.loading import load_settings, settings_from
from tardis_machine.app.settings.options import options_of
from tardis_machine.buses.files.settings import FilesSettings
from tardis_machine.buses.registry import PublishingSettings, bus_classes, missing_client
from tardis_machine.buses.settings import EventBusSettings, default_producer_id
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret

BUSES = bus_classes()


def load(*words: str, **environ: str) -> PublishingSettings:
    return load_settings(PublishingSettings, words, environ).settings


def problems(*words: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(*words)
    return list(caught.value.problems)


def test_nothing_is_published_by_default() -> None:
    assert load().active == []
    assert list(load().warnings()) == []


def test_anchor_switches_a_bus_on_and_other_options_without_it_are_warned_of() -> None:
    assert [bus.bus for bus in load("--files-dir", "x").active] == ["files"]
    settings = load("--files-stream", "s", TM_FILES_OVERFLOW="block")
    assert settings.active == []
    assert list(settings.warnings()) == [
        "files-stream is set but files-dir is not: Files publishing stays disabled",
        "files-overflow is set but files-dir is not: Files publishing stays disabled",
    ]


def test_options_have_flags_variables_and_keys(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text('[event_bus]\noverflow = "block"\n[files]\nfsyncMs = 5\n')
    settings = settings_from(
        PublishingSettings,
        {"event_bus": {"overflow": "block"}, "files": {"dir": "x", "fsyncMs": 5}},
    ).settings
    assert (settings.event_bus.overflow, settings.files.fsync_ms) == ("block", 5)
    assert load(TM_EVENT_BUS_QUEUE_MAX_BYTES="2 MiB").event_bus.queue_max_bytes == 2 << 20
    assert load("--console-enable").console.is_on


def test_bus_may_have_delivery_options_of_its_own() -> None:
    settings = load(
        "--files-dir",
        "x",
        "--event-bus-overflow",
        "block",
        "--event-bus-drain-timeout-ms",
        "7",
        TM_FILES_OVERFLOW="drop-oldest",
    )
    delivery = settings.delivery(settings.files)
    assert (delivery.overflow, delivery.drain_timeout_ms) == ("drop-oldest", 7)


@pytest.mark.parametrize("bus", BUSES, ids=lambda bus: bus.bus)
def test_every_bus_can_override_every_delivery_option(bus: Any) -> None:
    for_all = {"producer_id", "fsync"}
    shared = {option.field for option in options_of(EventBusSettings)} - for_all
    own = {option.field for option in options_of(bus)}
    assert shared <= own


@pytest.mark.parametrize("bus", BUSES, ids=lambda bus: bus.bus)
def test_every_bus_has_the_options_that_all_have(bus: Any) -> None:
    own = {option.field for option in options_of(bus)}
    assert {"include_payloads", "exclude_payloads", "static_headers", "max_batch_size"} <= own
    assert set(bus.anchors) <= own


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["--event-bus-producer-id", "a b"],
            "event-bus-producer-id must match [A-Za-z0-9._-]{1,64}. "
            "Got 'a b' from --event-bus-producer-id.",
        ),
        (
            ["--event-bus-overflow", "spil"],
            "event-bus-overflow must be one of spill, block, drop-oldest, drop-newest. "
            "Did you mean 'spill'? Got 'spil' from --event-bus-overflow.",
        ),
        (
            ["--event-bus-spool-max-bytes", "1 MiB"],
            "event-bus-spool-max-bytes must be 0 or at least 16 MiB.",
        ),
        (
            ["--event-bus-retry-initial-ms", "500", "--event-bus-retry-max-ms", "100"],
            "event-bus-retry-initial-ms must not be above event-bus-retry-max-ms.",
        ),
        (
            ["--files-dir", "x", "--event-bus-dead-letter", "target"],
            "files-dead-letter-target is required when its dead-letter is target.",
        ),
        (
            ["--files-include-payloads", "trades"],
            "Unknown payload case(s) for files-include-payloads: trades. Did you mean 'trade'? "
            "Known cases: trade, bookChange, bookSnapshot, groupedBookSnapshot, quote, "
            "bookTicker, derivativeTicker, liquidation, optionSummary, tradeBar, error, "
            "disconnect.",
        ),
        (
            ["--files-include-payloads", "trade", "--files-exclude-payloads", "TRADE"],
            "files-include-payloads and files-exclude-payloads both name trade.",
        ),
        (
            ["--files-static-headers", "payloadCase:x"],
            'files-static-headers cannot override reserved header "payloadCase".',
        ),
        (
            ["--files-static-headers", '{"a b": "x"}'],
            'files-static-headers: "a b" is not a valid header name.',
        ),
        (
            ["--files-static-headers", '{"a": "x\\ny"}'],
            'files-static-headers: the value of "a" is empty or has control characters.',
        ),
        (
            ["--files-stream", "a/b"],
            'files-stream: "a/b" is not a valid stream name: it must match [A-Za-z0-9._-]{1,128}.',
        ),
        (
            ["--files-stream-template", "{{nope}}"],
            'Unknown files-stream-template placeholder "{{nope}}". Valid: exchange, symbol, '
            "payloadCase, dataType, source, origin, meta.<key>.",
        ),
        (
            ["--files-stream-routing", "trade"],
            'Invalid files-stream-routing entry "trade". Expected payloadCase:stream. '
            "Got 'trade' from --files-stream-routing.",
        ),
        (
            ["--files-stream-routing", "trade:t,trade:u"],
            "Duplicate files-stream-routing entry \"trade\". Got 'trade:t,trade:u' from "
            "--files-stream-routing.",
        ),
        (
            ["--files-stream-routing", ""],
            "files-stream-routing must define at least one mapping.",
        ),
    ],
)
def test_bad_settings_are_refused_by_name(words: list[str], problem: str) -> None:
    assert problem in problems(*words)


def test_bad_delivery_option_of_one_bus_is_refused_by_its_name() -> None:
    with pytest.raises(SettingsError, match="files-spool-max-bytes must be 0 or at least 16 MiB"):
        load("--files-dir", "x", TM_FILES_SPOOL_MAX_BYTES="5")


def test_delivery_option_of_one_bus_may_be_in_a_file(tmp_path: Path) -> None:
    config = tmp_path / "machine.toml"
    config.write_text('[kafka]\noverflow = "block"\n[event_hubs]\ndrainTimeoutMs = 7\n')
    settings = load_settings(ServeSettings, ["--config", str(config)]).settings.publishing
    assert settings.delivery(settings.kafka).overflow == "block"
    assert settings.delivery(settings.event_hubs).drain_timeout_ms == 7


def test_all_problems_are_reported_together() -> None:
    found = problems(
        "--files-include-payloads", "x", "--files-stream", "a/b", "--event-bus-overflow", "y"
    )
    assert len(found) == 3


def test_every_destination_can_be_listed_as_it_is_written() -> None:
    settings = FilesSettings(
        dir=Path("x"), stream_template="{{exchange}}", stream_routing={"trade": "trades"}
    )
    assert settings.destinations.texts() == ["bronze", "{{exchange}}", "trades"]


def test_missing_client_is_named_with_the_line_that_installs_it() -> None:
    class Absent(FilesSettings):
        title = "Absent"
        client = "no_such_client"
        extra = "absent"

    assert list(missing_client(Absent())) == [
        "Absent publishing requires 'no_such_client'. Run: pip install 'tardis-machine[absent]'"
    ]


def test_default_producer_id_is_a_valid_one() -> None:
    load("--event-bus-producer-id", default_producer_id())


@pytest.mark.parametrize("bus", BUSES, ids=lambda bus: bus.bus)
def test_secrets_are_never_shown(bus: Any) -> None:
    secrets = [option for option in options_of(bus) if option.is_secret]
    plain = {option.field for option in options_of(bus) if not option.is_secret}
    assert not {name for name in plain if name.endswith(("password", "secret", "token"))}
    fields: Mapping[str, Any] = {option.field: Secret("hidden") for option in secrets}
    assert "hidden" not in repr(fields)


MISTAKES = {
    "--event-bus-retry-max-ms=never": "event-bus-retry-max-ms must be",
    "--event-bus-spool-max-bytes=5": "event-bus-spool-max-bytes must be 0 or",
    "--kafka-acks=9": "kafka-acks must be",
    "--kafka-brokers=nowhere": 'kafka-brokers: "nowhere" must be host:port.',
    "--kafka-ssl-cert=absent.pem": "kafka-ssl-cert",
    "--kafka-config=acks:1": "kafka-config cannot set acks",
    "--kafka-static-headers=eventId:x": 'cannot override reserved header "eventId"',
    "--kinesis-max-in-flight=many": "kinesis-max-in-flight must be",
    "--kinesis-stream=a/b": 'kinesis-stream: "a/b"',
    "--kinesis-role-arn=x": "kinesis-role-arn must be",
    "--nats-stream-replicas=9": "nats-stream-replicas must be",
    "--nats-servers=http://h": "nats-servers:",
    "--nats-user=u": "nats-user and nats-pass must be given together.",
    "--event-hubs-transport=smtp": "event-hubs-transport must be",
    "--event-hubs-namespace=name": "event-hubs-namespace must be",
    "--redis-db=-1": "redis-db must be",
    "--redis-url-file=absent.txt": "--redis-url-file",
    "--redis-max-length=5": "redis-max-length or redis-max-age-ms",
    "--files-dir=x": None,
    "--files-stream=a/b": 'files-stream: "a/b"',
    "--redis-max-age-ms=5": None,
}
"""Flags, and what is wrong with them; several in each class, and one that cannot be read."""

CONSEQUENCES = (
    "kafka-topic is required when kafka-brokers is set.",
    "nats-subject is required when nats-servers is set.",
    "redis-stream is required when redis-url or redis-host is set.",
    "event-hubs-event-hub-name is required when event-hubs-namespace is set.",
    "files-dead-letter-target is required when its dead-letter is target.",
)


def test_all_mistakes_of_all_classes_come_in_one_report() -> None:
    found = problems(*MISTAKES, "--event-bus-dead-letter=target")
    expected = [text for text in MISTAKES.values() if text]
    assert [text for text in expected if not any(text in each for each in found)] == []
    assert [text for text in CONSEQUENCES if text not in found] == []


def test_mistake_in_the_options_of_all_buses_is_not_repeated_for_each_bus() -> None:
    found = problems("--event-bus-spool-max-bytes=5", "--files-dir=x", "--console-enable")
    assert found == ["event-bus-spool-max-bytes must be 0 or at least 16 MiB."]
