"""Addresses of venues, asked there or at a gateway."""

import pytest

from tardis_machine.model.errors import SettingsError
from tardis_machine.sources.live.addresses import reachable
from tardis_machine.sources.live.settings import LiveSettings


@pytest.mark.parametrize(
    ("url", "gateway", "expected"),
    [
        ("wss://a.com/b?c=d", None, "wss://a.com/b?c=d"),
        ("wss://a.com/b?c=d", "http://gw:9100", "ws://gw:9100/a.com/b?c=d"),
        ("https://a.com/b?c=d", "http://gw:9100/", "http://gw:9100/a.com/b?c=d"),
        ("wss://a.com:8443/b", "https://gw/base", "wss://gw/base/a.com:8443/b"),
        ("https://a.com/b", "https://gw", "https://gw/a.com/b"),
        ("wss://a.com", "http://gw", "ws://gw/a.com/"),
    ],
)
def test_gateway_stands_for_every_venue(url: str, gateway: str | None, expected: str) -> None:
    assert reachable(url, gateway) == expected


def test_gateway_must_be_a_url() -> None:
    with pytest.raises(SettingsError, match="exchange_gateway must start with http"):
        LiveSettings(exchange_gateway="localhost:9100")


def test_credentials_are_not_shown() -> None:
    settings = LiveSettings(exchange_environment={"OKX_API_SECRET_KEY": "s3cret"})
    assert "s3cret" not in repr(settings)
