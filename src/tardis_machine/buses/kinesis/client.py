"""Options of Kinesis clients, for producers and readers."""

from typing import Any

from tardis_machine.buses.kinesis.settings import KinesisSettings


def client_options(settings: KinesisSettings, config: Any) -> dict[str, Any]:
    """Return how to reach the service, with the configuration of the client itself."""
    verify = settings.verify_tls
    return {
        "region_name": settings.known_region,
        "verify": verify if isinstance(verify, bool) else str(verify),
        "config": config,
    }


def timeouts(settings: KinesisSettings) -> dict[str, float]:
    """Return the timeouts of a client configuration."""
    return {
        "connect_timeout": settings.connect_timeout_ms / 1000,
        "read_timeout": settings.request_timeout_ms / 1000,
    }


def role_request(settings: KinesisSettings) -> dict[str, Any]:
    """Return the arguments of AssumeRole."""
    wanted = {"RoleArn": settings.role_arn, "RoleSessionName": settings.role_session_name}
    if settings.role_external_id is not None:
        wanted["ExternalId"] = settings.role_external_id
    return wanted


def role_login(credentials: dict[str, Any]) -> dict[str, str]:
    """Return the credentials from AssumeRole."""
    return {
        "aws_access_key_id": credentials["AccessKeyId"],
        "aws_secret_access_key": credentials["SecretAccessKey"],
        "aws_session_token": credentials["SessionToken"],
    }


def stream_argument(name: str) -> dict[str, str]:
    """Return what names a stream in a call."""
    return {"StreamARN" if name.startswith("arn:") else "StreamName": name}
