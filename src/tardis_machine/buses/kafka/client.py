"""Connection properties of librdkafka, and its errors, logs and statistics."""

import json
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError

from tardis_machine.buses.kafka.msk import token_source
from tardis_machine.buses.kafka.settings import KafkaSettings
from tardis_machine.telemetry.loggers import get_logger

_LEVELS = {logging.CRITICAL: "error", logging.ERROR: "error", logging.WARNING: "warning"}


def client_properties(settings: KafkaSettings) -> dict[str, Any]:
    """Return the properties that every client of these brokers needs."""
    return {
        "bootstrap.servers": settings.broker_list,
        "client.id": settings.client_id,
        "socket.timeout.ms": max(settings.request_timeout_ms, 10),
        "socket.connection.setup.timeout.ms": settings.connect_timeout_ms,
        "socket.keepalive.enable": True,
        # Brokers that come back are found within seconds.
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 1000,
        **_security_properties(settings),
    }


def _security_properties(settings: KafkaSettings) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "security.protocol": settings.protocol,
        "ssl.ca.location": settings.ssl_ca and str(settings.ssl_ca),
        "ssl.certificate.location": settings.ssl_cert and str(settings.ssl_cert),
        "ssl.key.location": settings.ssl_key and str(settings.ssl_key),
        "ssl.key.password": settings.ssl_key_password and settings.ssl_key_password.reveal(),
        **_sasl_properties(settings),
    }
    if not settings.ssl_verify:
        properties["enable.ssl.certificate.verification"] = False
    return {name: value for name, value in properties.items() if value is not None}


def _sasl_properties(settings: KafkaSettings) -> dict[str, Any]:
    if settings.sasl_mechanism is None:
        return {}
    if settings.sasl_mechanism == "aws-msk-iam":
        return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token_source(settings.broker_list)}
    mechanism = {"sasl.mechanism": settings.sasl_mechanism.upper()}
    if settings.sasl_mechanism == "oauthbearer":
        secret = settings.oauth_client_secret
        return mechanism | {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": settings.oauth_token_url,
            "sasl.oauthbearer.client.id": settings.oauth_client_id,
            "sasl.oauthbearer.client.secret": secret and secret.reveal(),
            "sasl.oauthbearer.scope": settings.oauth_scope,
        }
    password = settings.sasl_password
    return mechanism | {
        "sasl.username": settings.sasl_username,
        "sasl.password": password and password.reveal(),
    }


class Listener:
    """Hears errors, log lines and statistics of librdkafka, during `poll` and `flush`.

    An unreachable broker makes hundreds of lines per second: the first of a kind is logged at
    once, then one per interval with the number of those left out.
    """

    def __init__(
        self,
        secrets: Iterable[str],
        interval_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = get_logger(__name__)
        self._secrets = [secret for secret in secrets if secret]
        self._interval_seconds = interval_seconds
        self._monotonic = monotonic
        self._next_line: dict[str, float] = {}
        self._left_out: dict[str, int] = {}
        self.refusals_total = 0
        """Number of failed authentications."""
        self.is_refused = False
        """They did not, and no record has been acknowledged since."""
        self.is_cut_off = False
        """No broker could be reached, and no record has been acknowledged since."""
        self.last_error = ""

    def forget(self) -> None:
        """Reset, for a new connection or because brokers respond again."""
        self.is_refused = self.is_cut_off = False

    def error(self, error: KafkaError) -> None:
        """Take an error that belongs to no record."""
        self.last_error = self.hidden(error.str())
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
            self.refusals_total += 1
            self.is_refused = True
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.is_cut_off = True
        self._say("warning", error.name(), error.str())

    def log(self, level: int, _format: str, kind: str, _client: str, text: str) -> None:
        """Take a log line, as a `logging.Logger` would."""
        self._say(_LEVELS.get(level, "debug"), kind, text)

    def statistics(self, text: str) -> None:
        """Log the few figures an operator looks at."""
        figures = json.loads(text)
        brokers = figures["brokers"].values()
        self._log.info(
            "kafka statistics",
            queued=figures["msg_cnt"],
            queued_bytes=figures["msg_size"],
            sent=figures["txmsgs"],
            sent_bytes=figures["txmsg_bytes"],
            round_trip_us=max((broker["rtt"]["avg"] for broker in brokers), default=0),
        )

    def hidden(self, text: str) -> str:
        """Return a text without the secrets of the settings."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _say(self, level: str, kind: str, text: str) -> None:
        now = self._monotonic()
        if now < self._next_line.get(kind, 0.0):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._next_line[kind] = now + self._interval_seconds
        left_out = self._left_out.pop(kind, 0)
        say = getattr(self._log, level)
        say("librdkafka log", kind=kind, text=self.hidden(text), left_out=left_out)
