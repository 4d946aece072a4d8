"""Tokens for Amazon MSK with IAM: a signed request that the broker sends on to AWS.

librdkafka asks for a token when it connects and again before one expires. The credentials are
those of the AWS credential chain, refreshed by it.
"""

import base64
import importlib
import re
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from tardis_machine.model.errors import MissingExtraError, SettingsError, SinkUnavailableError

Token: TypeAlias = tuple[str, float]
"""The token, and when it ends in Unix seconds."""

LIFETIME_SECONDS = 900
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


def token_source(brokers: str) -> Callable[[str], Token]:
    """Return what librdkafka calls for a token to these brokers."""
    signing = _botocore()
    session = signing.session.get_session()
    region = _region(brokers, session)

    def make_token(_config: str) -> Token:
        credentials = session.get_credentials()
        if credentials is None:
            raise SinkUnavailableError("No AWS credentials were found for kafka-sasl-mechanism.")
        return signed_token(region, credentials, time.time())

    return make_token


def signed_token(region: str, credentials: Any, now: float) -> Token:
    """Sign the request to connect to a cluster, and pack it as a token."""
    signing = _botocore()
    request = signing.awsrequest.AWSRequest(
        "GET",
        f"https://kafka.{region}.amazonaws.com/",
        params={"Action": "kafka-cluster:Connect"},
    )
    signer = signing.auth.SigV4QueryAuth(
        credentials.get_frozen_credentials(), "kafka-cluster", region, expires=LIFETIME_SECONDS
    )
    signer.add_auth(request)
    # The broker asks for a user agent, which is no part of what is signed.
    url = f"{request.url}&User-Agent=tardis-machine"
    token = base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode()
    return token, now + LIFETIME_SECONDS


def _region(brokers: str, session: Any) -> str:
    if found := _REGION.search(brokers):
        return found[1]
    if region := session.get_config_variable("region"):
        return str(region)
    raise SettingsError(
        "kafka-sasl-mechanism=aws-msk-iam requires a region: set AWS_DEFAULT_REGION."
    )


def _botocore() -> Any:
    try:
        for module in ("auth", "awsrequest", "session"):
            importlib.import_module(f"botocore.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "kafka-sasl-mechanism=aws-msk-iam requires botocore. "
            "Run: pip install 'tardis-machine[kafka,kinesis]'"
        ) from error
    return importlib.import_module("botocore")
