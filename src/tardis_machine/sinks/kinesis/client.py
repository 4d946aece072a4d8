"""The client of Kinesis: credentials, configuration, lifetime."""

import time
from contextlib import AsyncExitStack
from typing import Any

from aiobotocore.config import AioConfig  # type: ignore[import-untyped]
from aiobotocore.session import AioSession  # type: ignore[import-untyped]

from tardis_machine.buses.kinesis.client import (
    client_options,
    role_login,
    role_request,
    timeouts,
)
from tardis_machine.buses.kinesis.settings import KinesisSettings
from tardis_machine.sinks.kinesis.wire import use_fast_wire

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
        use_fast_wire(self.api)

    async def close(self) -> None:
        """Close all connections."""
        await self._stack.aclose()

    def _options(self) -> dict[str, Any]:
        config = AioConfig(
            retries={"total_max_attempts": 1, "mode": "standard"},
            # Checking our own records again costs two thirds of a call.
            parameter_validation=False,
            max_pool_connections=max(_CONNECTIONS, self._settings.max_in_flight),
            tcp_keepalive=True,
            **timeouts(self._settings),
        )
        return client_options(self._settings, config)

    async def _assume_role(self, session: AioSession, login: dict[str, str]) -> dict[str, str]:
        async with session.create_client("sts", **self._options(), **login) as sts:
            answer = await sts.assume_role(**role_request(self._settings))
        found = answer["Credentials"]
        self._expires_at = found["Expiration"].timestamp()
        return role_login(found)
