"""How clients of NATS connect, whether they publish or read."""

import ssl

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.buses.tls import client_context


def tls_context(settings: NatsSettings) -> ssl.SSLContext:
    """Return the TLS context of the settings."""
    return client_context(settings.tls_ca, settings.tls_cert, settings.tls_key)


def has_tls(settings: NatsSettings) -> bool:
    """Say whether certificates are given, so that connections must be encrypted."""
    return settings.tls_ca is not None or settings.tls_cert is not None
