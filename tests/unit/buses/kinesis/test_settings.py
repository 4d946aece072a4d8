"""Options of the Kinesis bus: what is derived, what is refused, what is never shown."""

from pathlib import Path
from typing import Any

import pytest

from tardis_machine.app.settings.loading import load_settings
from tardis_machine.buses.kinesis.settings import NO_REGION, KinesisSettings
from tardis_machine.buses.registry import PublishingSettings
from tardis_machine.buses.settings import EventBusSettings
from tardis_machine.model.errors import SettingsError
from tardis_machine.model.settings import Secret

ON: dict[str, Any] = {"stream": "bronze", "region": "eu-west-1"}
ARN = "arn:aws:kinesis:eu-central-1:123456789012:stream/bronze"


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the region and the configuration files of whoever runs the tests."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def problems(**options: Any) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        KinesisSettings(**{**ON, **options})
    return caught.value.problems


def test_nothing_given_is_off_and_valid() -> None:
    assert not KinesisSettings().is_on


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"stream": "a b"}, 'kinesis-stream: "a b" is not a valid stream name'),
        (
            {"stream": "arn:aws:s3:::x"},
            'kinesis-stream: "arn:aws:s3:::x" is not a valid stream name',
        ),
        ({"region": None}, NO_REGION),
        (
            {"access_key_id": "AKID"},
            "kinesis-access-key-id and kinesis-secret-access-key must be given together.",
        ),
        (
            {"session_token": Secret("t")},
            "kinesis-session-token requires kinesis-access-key-id.",
        ),
        (
            {"profile": "p", "access_key_id": "AKID", "secret_access_key": Secret("s")},
            "Give kinesis-profile or kinesis-access-key-id, not both.",
        ),
        ({"role_arn": "admin"}, "kinesis-role-arn must be the ARN of an IAM role."),
        ({"role_external_id": "x"}, "kinesis-role-external-id requires kinesis-role-arn."),
        ({"endpoint_url": "ftp://x"}, "kinesis-endpoint-url must be an http or https URL"),
        ({"endpoint_url": "http://u:p@x"}, "kinesis-endpoint-url must be an http or https URL"),
        ({"max_shard_rate": 2.0}, "kinesis-max-shard-rate must be 0 or between 0.1 and 1.5."),
        ({"max_shard_rate": 0.05}, "kinesis-max-shard-rate must be 0 or between 0.1 and 1.5."),
        (
            {"stream_routing": {"trade": "a/b"}},
            'kinesis-stream-routing: "a/b" is not a valid stream name',
        ),
        (
            {"partition_key_template": "{{nope}}"},
            'Unknown kinesis-partition-key-template placeholder "{{nope}}".',
        ),
        (
            {"static_headers": {"delivery_id": "x"}},
            'kinesis-static-headers cannot override reserved header "delivery_id".',
        ),
    ],
)
def test_fault_is_named(options: dict[str, Any], expected: str) -> None:
    assert any(problem.startswith(expected) for problem in problems(**options))


def test_region_comes_from_the_arn_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KinesisSettings(stream=ARN).known_region == "eu-central-1"
    assert KinesisSettings(stream=ARN, region="us-east-1").known_region == "us-east-1"
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert KinesisSettings(stream="s").known_region == "eu-north-1"
    assert KinesisSettings(stream=ARN).known_region == "eu-central-1"


def test_configuration_files_may_name_the_region(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = x\n")
    assert KinesisSettings(stream="s").known_region is None


@pytest.mark.parametrize(("own", "shared"), [("batch", "key"), ("strict", "key"), ("none", "none")])
def test_ordering_decides_what_lanes_hold_up(own: Any, shared: str) -> None:
    settings = KinesisSettings(**ON, ordering=own)
    assert settings.resolve(EventBusSettings()).ordering == shared


def test_secrets_are_not_in_the_repr() -> None:
    secrets = {"secret_access_key": Secret("s3cret"), "session_token": Secret("t0ken")}
    shown = repr(KinesisSettings(**ON, access_key_id="AKID", **secrets))
    assert "s3cret" not in shown
    assert "t0ken" not in shown


def test_every_name_of_an_option_is_understood(tmp_path: Path) -> None:
    authorities = tmp_path / "ca.pem"
    authorities.write_text("x")
    words = [
        "--kinesis-stream-name=s",
        "--kinesis-region=us-east-1",
        "--kinesis-access-key=AKID",
        "--kinesis-secret-key=x",
        f"--kinesis-verify-tls={authorities}",
        "--kinesis-max-batch-bytes=2MiB",
        "--kinesis-create-stream=on-demand",
    ]
    kinesis = load_settings(PublishingSettings, words).settings.kinesis
    assert (kinesis.stream, kinesis.access_key_id) == ("s", "AKID")
    assert (kinesis.verify_tls, kinesis.max_batch_bytes) == (authorities, 2_097_152)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (
            "--kinesis-max-batch-size=501",
            "kinesis-max-batch-size must be an integer between 1 and 500.",
        ),
        ("--kinesis-verify-tls=maybe", "kinesis-verify-tls must be true, false or a PEM file"),
        ("--kinesis-create-stream=some", "kinesis-create-stream must match"),
        ("--kinesis-ordering=key", "kinesis-ordering must be one of batch, strict, none"),
        ("--kinesis-aggregation-max-bytes=100", "kinesis-aggregation-max-bytes must be"),
    ],
)
def test_bad_value_is_refused(word: str, expected: str) -> None:
    words = ["--kinesis-stream=s", "--kinesis-region=us-east-1", word]
    with pytest.raises(SettingsError, match=expected):
        load_settings(PublishingSettings, words)
