"""The client of Kinesis: credentials, configuration, lifetime."""

import time
from contextlib import AsyncExitStack
from typing import Any

from aiobotocore.config import AioConfig  # type: ignore[import-untyped]
from aiobotocore.session import AioSession  # type: ignore[import-untyped]

from tardis_machine.buses.kinesis.settings import KinesisSettings

_CONNECTIONS = 16
_RENEW_SECONDS = 120.0
"""A role is assumed again so long before its credentials expire."""


class KinesisClient:
    """An open client; its retries are off, because they know nothing of order."""

    api: Any
    """The operations of Kinesis."""

    def __init__(self, settings: KinesisSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._expires_at = float("inf")

    @property
    def is_expiring(self) -> bool:
        """Say whether the credentials of the role must be renewed soon."""
        return time.time() > self._expires_at - _RENEW_SECONDS

    async def open(self, session: AioSession) -> None:
        """Get credentials and make the client; no call of Kinesis is made."""
        login = self._settings.login()
        if self._settings.role_arn is not None:
            login = await self._assume_role(session, login)
        client = session.create_client(
            "kinesis", endpoint_url=self._settings.endpoint_url, **self._options(), **login
        )
        self.api = await self._stack.enter_async_context(client)

    async def close(self) -> None:
        """Close all connections."""
        await self._stack.aclose()

    def _options(self) -> dict[str, Any]:
        settings = self._settings
        verify = settings.verify_tls
        return {
            "region_name": settings.known_region,
            "verify": verify if isinstance(verify, bool) else str(verify),
            "config": AioConfig(
                retries={"total_max_attempts": 1, "mode": "standard"},
                # Checking our own records again costs two thirds of a call.
                parameter_validation=False,
                max_pool_connections=max(_CONNECTIONS, settings.max_in_flight),
                tcp_keepalive=True,
                connect_timeout=settings.connect_timeout_ms / 1000,
                read_timeout=settings.request_timeout_ms / 1000,
            ),
        }

    async def _assume_role(self, session: AioSession, login: dict[str, str]) -> dict[str, str]:
        settings = self._settings
        wanted = {"RoleArn": settings.role_arn, "RoleSessionName": settings.role_session_name}
        if settings.role_external_id is not None:
            wanted["ExternalId"] = settings.role_external_id
        async with session.create_client("sts", **self._options(), **login) as sts:
            answer = await sts.assume_role(**wanted)
        found = answer["Credentials"]
        self._expires_at = found["Expiration"].timestamp()
        return {
            "aws_access_key_id": found["AccessKeyId"],
            "aws_secret_access_key": found["SecretAccessKey"],
            "aws_session_token": found["SessionToken"],
        }
