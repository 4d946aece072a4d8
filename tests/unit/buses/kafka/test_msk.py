"""Tokens for Amazon MSK."""

import base64
import sys
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.credentials import Credentials

from tardis_machine.buses.kafka.msk import LIFETIME_SECONDS, signed_token, token_source
from tardis_machine.model.errors import MissingExtraError, SettingsError

BROKERS = "b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098"


def signed_url(token: str) -> str:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()


def test_token_is_a_signed_request_to_connect() -> None:
    token, ends = signed_token("eu-west-1", Credentials("AKIDEXAMPLE", "secret-key"), 1000.0)
    url = urlsplit(signed_url(token))
    query = parse_qs(url.query)
    assert url.hostname == "kafka.eu-west-1.amazonaws.com"
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert query["X-Amz-Credential"][0].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert query["X-Amz-Expires"] == [str(LIFETIME_SECONDS)]
    assert len(query["X-Amz-Signature"][0]) == 64
    assert query["User-Agent"]
    assert "secret-key" not in signed_url(token)
    assert ends == 1000.0 + LIFETIME_SECONDS


def test_region_is_read_from_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-key")
    token, _ = token_source(BROKERS)("")
    assert urlsplit(signed_url(token)).hostname == "kafka.eu-west-1.amazonaws.com"


def test_unknown_region_is_a_settings_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "missing")
    with pytest.raises(SettingsError, match="AWS_DEFAULT_REGION"):
        token_source("proxy:9098")


def test_missing_botocore_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.auth", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tardis-machine\[kafka,kinesis\]'"):
        token_source(BROKERS)
