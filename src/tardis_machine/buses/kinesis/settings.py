"""Settings of publishing to Kinesis Data Streams."""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from tardis_machine.bronze.keys import DEFAULT_KEY, KINESIS_KEY
from tardis_machine.buses.destinations import Destinations
from tardis_machine.buses.settings import MIB, BusSettings, EventBusSettings, overriding
from tardis_machine.model.settings import Secret, computed_option, group, option

MAX_RECORD_BYTES = 10 * MIB
MAX_CALL_BYTES = 10 * MIB
MAX_CALL_RECORDS = 500
NO_REGION = "kinesis-region is required (no AWS_REGION, profile or ARN region found)."

_KIB = 1024
_STREAM = re.compile(
    r"[A-Za-z0-9_.-]{1,128}|arn:aws[a-z-]*:kinesis:[a-z0-9-]+:\d{12}:stream/[A-Za-z0-9_.-]{1,128}",
    re.ASCII,
)
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/\S+")


def read_verify(text: str) -> bool | Path:
    """Read whether to verify certificates, or the file of CA certificates to trust."""
    if text in ("true", "false"):
        return text == "true"
    path = Path(text).expanduser()
    if not path.is_file():
        raise ValueError("kinesis-verify-tls must be true, false or a PEM file of CA certificates.")
    return path


@overriding("ordering")
class KinesisDelivery:
    """Delivery options of Kinesis, where they differ from those of all buses."""


@dataclass(frozen=True, kw_only=True)
class KinesisSettings(BusSettings):
    """Publish to AWS Kinesis Data Streams."""

    bus: ClassVar[str] = "kinesis"
    title: ClassVar[str] = "Kinesis"
    extra: ClassVar[str | None] = "kinesis"
    client: ClassVar[str | None] = "aiobotocore"
    anchors: ClassVar[tuple[str, ...]] = ("stream",)
    reserved_headers: ClassVar[tuple[str, ...]] = ("delivery_id",)
    usual: ClassVar[tuple[str, ...]] = (
        "stream",
        "region",
        "access_key_id",
        "secret_access_key",
        "profile",
        "role_arn",
        "create_stream",
    )

    stream: str | None = option(
        None,
        "Stream (name or ARN) of payload cases that stream-routing does not list. Setting it "
        "enables Kinesis.",
        aliases=("stream_name",),
    )
    stream_routing: Mapping[str, str] | None = option(
        None, "Stream per payload case.", metavar="payloadCase:stream"
    )
    stream_template: str | None = option(None, "Stream name template, such as bronze-{{exchange}}.")
    partition_key_template: str = option(
        DEFAULT_KEY, "Partition key template; events with the same key are delivered in order."
    )
    explicit_hash_key: Literal["off", "symbol"] = option(
        "off",
        "symbol: send an explicit hash key, so that all events of a symbol go to the same shard "
        "whatever their partition key.",
    )
    region: str | None = computed_option(
        lambda: None,
        "AWS region.",
        shown_default="of the ARN, AWS_REGION, the profile",
        pattern=r"[a-z0-9-]+",
    )
    access_key_id: str | None = option(
        None,
        "Access key id (default: AWS credential chain: environment, files, instance role).",
        aliases=("access_key",),
    )
    secret_access_key: Secret | None = option(None, "Secret access key.", aliases=("secret_key",))
    session_token: Secret | None = option(None, "Session token of temporary credentials.")
    profile: str | None = option(None, "Profile in the AWS configuration files.")
    role_arn: str | None = option(None, "ARN of the role to assume.")
    role_external_id: str | None = option(None, "External id for assuming the role.")
    role_session_name: str = option(
        "tardis-machine", "Session name of the assumed role.", pattern=r"[\w+=,.@-]{2,64}"
    )
    endpoint_url: str | None = option(
        None, "Endpoint URL, such as that of a VPC endpoint.", metavar="URL"
    )
    verify_tls: bool | Path = option(
        default=True,
        help="Verify the certificate of the endpoint: true, false, or a PEM file of CAs.",
        parse=read_verify,
    )
    ordering: Literal["batch", "strict", "none"] = option(
        "batch",
        "batch: a partial failure may reorder events within one PutRecords call; strict: at most "
        "one event per key and call; none: no ordering.",
    )
    aggregation: Literal["off", "kpl"] = option(
        "off",
        "kpl: aggregate events of a key into one record (KPL format); consumers must deaggregate.",
    )
    aggregation_max_bytes: int = option(
        51_200, "Maximum size of an aggregated record.", minimum=_KIB, maximum=MIB
    )
    create_stream: str = option(
        "off",
        "Create missing streams: off, on-demand, or provisioned with this number of shards.",
        pattern=r"off|on-demand|[1-9][0-9]{0,5}",
    )
    max_shard_rate: float = option(
        1.0,
        "Client-side rate limit as a fraction of the shard write limits, 0.1 to 1.5; 0: no limit.",
        minimum=0,
    )
    max_in_flight: int = option(
        4, "Maximum PutRecords calls in flight, with different keys.", minimum=1, maximum=64
    )
    max_batch_size: int = option(
        MAX_CALL_RECORDS,
        "Maximum records per PutRecords call.",
        minimum=1,
        maximum=MAX_CALL_RECORDS,
    )
    max_batch_bytes: int = option(
        5 * MIB, "Maximum bytes per PutRecords call.", minimum=_KIB, maximum=MAX_CALL_BYTES
    )
    max_batch_delay_ms: int = option(25, "Maximum time to wait for a batch to fill.", minimum=0)
    max_record_bytes: int = option(
        MIB,
        "Maximum size of a record, key included; a stream may allow less.",
        minimum=_KIB,
        maximum=MAX_RECORD_BYTES,
    )
    request_timeout_ms: int = option(10_000, "Timeout of a call.", minimum=1)
    connect_timeout_ms: int = option(5000, "Connect timeout.", minimum=1)
    delivery: KinesisDelivery = group(KinesisDelivery, "kinesis")

    @property
    def endpoint(self) -> str:
        """Return the region, or the address of another service."""
        return self.endpoint_url or self.known_region or ""

    @property
    def destinations(self) -> Destinations:
        """Return what names the streams."""
        return Destinations(
            bus=self.bus,
            noun="stream",
            base=self.stream,
            routing=self.stream_routing,
            template=self.stream_template,
            key=self.partition_key_template,
            key_rule=KINESIS_KEY,
            key_option="partition-key-template",
            pattern=_STREAM,
        )

    def login(self) -> dict[str, str]:
        """Return the credentials for AWS clients; empty means the AWS credential chain."""
        secret, token = self.secret_access_key, self.session_token
        if self.access_key_id is None or secret is None:
            return {}
        login = {
            "aws_access_key_id": self.access_key_id,
            "aws_secret_access_key": secret.reveal(),
        }
        return login | ({"aws_session_token": token.reveal()} if token else {})

    def resolve(self, shared: EventBusSettings) -> EventBusSettings:
        """Return how events are delivered to Kinesis."""
        resolved = super().resolve(shared)
        ordering: Literal["key", "none"] = "none" if self.ordering == "none" else "key"
        return dataclasses.replace(resolved, ordering=ordering)

    @property
    def known_region(self) -> str | None:
        """Return the region as far as it is known without the AWS configuration files."""
        if self.region is not None:
            return self.region
        if self.stream is not None and self.stream.startswith("arn:"):
            return self.stream.split(":")[3]
        # Part of the AWS credential chain, like the keys, which are read from the environment too.
        return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")

    def problems(self) -> Iterable[str]:
        """Yield what is wrong, option by option."""
        yield from self.destinations.problems()
        yield from self._login_problems()
        if self.endpoint_url is not None and not _is_http(self.endpoint_url):
            yield "kinesis-endpoint-url must be an http or https URL without credentials or query."
        if self.max_shard_rate != 0 and not 0.1 <= self.max_shard_rate <= 1.5:
            yield "kinesis-max-shard-rate must be 0 or between 0.1 and 1.5."

    def _login_problems(self) -> Iterable[str]:
        if self.is_on and self.known_region is None and not self._may_have_profile():
            yield NO_REGION
        if (self.access_key_id is None) != (self.secret_access_key is None):
            yield "kinesis-access-key-id and kinesis-secret-access-key must be given together."
        if self.session_token is not None and self.access_key_id is None:
            yield "kinesis-session-token requires kinesis-access-key-id."
        if self.profile is not None and self.access_key_id is not None:
            yield "Give kinesis-profile or kinesis-access-key-id, not both."
        if self.role_arn is not None and not _ROLE.fullmatch(self.role_arn):
            yield "kinesis-role-arn must be the ARN of an IAM role."
        if self.role_external_id is not None and self.role_arn is None:
            yield "kinesis-role-external-id requires kinesis-role-arn."

    def _may_have_profile(self) -> bool:
        """Say whether AWS configuration files may name the region; only the client reads them."""
        return self.profile is not None or Path("~/.aws/config").expanduser().is_file()


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_plain = not (parts.username or parts.password or parts.query or parts.fragment)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain
    except ValueError:
        return False
