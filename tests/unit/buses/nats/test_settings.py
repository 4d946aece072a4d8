"""Options of the NATS bus: what is derived, what is refused, what is never shown."""

from pathlib import Path
from typing import Any

import pytest

from tardis_machine.app.settings.loading import load_settings
from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret

ON: dict[str, Any] = {"servers": ("nats://server:4222",), "subject": "bronze"}


def problems(**options: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        NatsSettings(**{**ON, **options})
    return caught.value.problems


def test_nothing_given_is_off_and_valid() -> None:
    assert not NatsSettings().is_on


@pytest.mark.parametrize("subject", ["a b", "a.*", "a.>", ".a", "a..b", "a.", ""])
@pytest.mark.parametrize("option", ["subject", "subject_template"])
def test_subject_that_cannot_be_published_to_is_refused(option: str, subject: str) -> None:
    (problem,) = problems(**{option: subject})
    name = option.replace("_", "-")
    assert problem == (f"nats-{name} must be a literal subject (no *, >, spaces or empty tokens).")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subject": None}, "nats-subject is required when nats-servers is set."),
        ({"servers": ("http://x",)}, 'nats-servers: "http://x" is not a nats://'),
        ({"servers": ("nats://",)}, 'nats-servers: "nats://" is not'),
        ({"servers": ("nats://h", "ws://h")}, "nats-servers must be all WebSocket URLs or none."),
        ({"subject_routing": {"x": "y"}}, "Unknown payload case(s) for nats-subject-routing: x."),
        ({"subject_routing": {}}, "nats-subject-routing must define at least one mapping."),
        ({"subject_routing": {"trade": "a.*"}}, "nats-subject-routing must be a literal subject"),
        ({"subject_template": "a.{{foo}}"}, 'Unknown nats-subject-template placeholder "{{foo}}".'),
        ({"user": "u"}, "nats-user and nats-pass must be given together."),
        (
            {"token": Secret("t"), "user": "u", "password": Secret("p")},
            "Only one authentication method may be given, not nats-user and nats-token.",
        ),
        ({"creds": Path("no-such-file")}, "nats-creds: no-such-file is not a file."),
        ({"tls_ca": Path("no-such-file")}, "nats-tls-ca: no-such-file is not a file."),
        ({"tls_key": Path(__file__)}, "nats-tls-key requires nats-tls-cert."),
        ({"stream": "a.b"}, "nats-stream must be a name"),
        ({"create_stream": True}, "nats-create-stream requires nats-stream."),
        ({"strict_order": True}, "nats-strict-order requires nats-stream."),
        ({"stream_subjects": ("a..b",)}, 'nats-stream-subjects: "a..b" is not a subject.'),
        ({"domain": "d", "api_prefix": "p"}, "Give nats-domain or nats-api-prefix, not both."),
        ({"mode": "core", "stream": "s"}, "nats-mode=core has no streams"),
        (
            {"static_headers": {"Nats-Rollup": "all"}},
            'nats-static-headers cannot override reserved header "Nats-Rollup".',
        ),
        (
            {"static_headers": {"deliveryid": "x"}},
            'nats-static-headers cannot override reserved header "deliveryid".',
        ),
        ({"static_headers": {"a:b": "x"}}, 'nats-static-headers: "a:b" has ":"'),
        ({"static_headers": {"a": "ü"}}, 'nats-static-headers: "a" has ":"'),
        ({"meta_headers_prefix": "a b"}, "nats-meta-headers-prefix must consist of"),
        ({"meta_headers_prefix": "Nats-"}, "nats-meta-headers-prefix must not begin with Nats-."),
        ({"include_payloads": ("nope",)}, "Unknown payload case(s) for nats-include-payloads"),
    ],
)
def test_fault_is_named(options: dict[str, Any], expected: str) -> None:
    assert any(problem.startswith(expected) for problem in problems(**options))


def test_all_faults_are_told_together() -> None:
    found = problems(subject="a b", user="u", domain="d", api_prefix="p")
    assert len(found) == 3


def test_login_in_a_server_url_is_refused_and_not_shown() -> None:
    (problem,) = problems(servers=("nats://bob:s3cret@host",))
    assert "nats-user" in problem
    assert "s3cret" not in problem


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(NatsSettings(**ON, user="u", password=Secret("s3cret")))
    assert "s3cret" not in shown


def test_strict_order_needs_message_ids() -> None:
    settings = NatsSettings(**ON, stream="s", strict_order=True)
    with pytest.raises(SettingsError, match="nats-strict-order requires message ids"):
        settings.resolve(EventBusSettings(message_id="off"))
    assert settings.resolve(EventBusSettings()).message_id == "sequence"


def test_created_stream_takes_every_subject_once() -> None:
    settings = NatsSettings(
        servers=("nats://h",),
        subject="unused",
        subject_template="b.{{exchange}}.x{{symbol}}",
        subject_routing={"error": "b.errors", "trade": "b.t.{{symbol}}", "quote": "q"},
    )
    assert settings.wanted_subjects == ("b.*.*", "b.errors", "q")


def test_given_subjects_of_a_stream_win() -> None:
    settings = NatsSettings(**ON, stream_subjects=("a.>", "b.*"))
    assert settings.wanted_subjects == ("a.>", "b.*")


def test_every_name_of_an_option_is_understood() -> None:
    words = [
        "--nats-servers=nats://a:1,tls://b:2",
        "--nats-subject=s",
        "--nats-user=u",
        "--nats-pass=p",
        "--nats-max-in-flight=7",
        "--nats-static-headers=env:test",
    ]
    environ = {"TM_NATS_REQUEST_TIMEOUT_MS": "9", "TM_NATS_RETRY_MAX_MS": "500"}
    nats = load_settings(PublishingSettings, words, environ).settings.nats
    assert nats.servers == ("nats://a:1", "tls://b:2")
    assert (nats.password, nats.max_pending, nats.ack_timeout_ms) == (Secret("p"), 7, 9)
    assert nats.resolve(EventBusSettings()).retry_max_ms == 500


def test_number_out_of_range_is_refused() -> None:
    words = ["--nats-servers=nats://a", "--nats-subject=s", "--nats-max-pending=0"]
    with pytest.raises(SettingsError, match="nats-max-pending must be an integer between 1 and"):
        load_settings(PublishingSettings, words)
