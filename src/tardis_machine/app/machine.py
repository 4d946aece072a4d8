"""The server as an object: `async with TardisMachine(port=8000) as machine`."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from tardis_machine.app.settings.commands import ServeSettings
from tardis_machine.app.settings.keywords import settings_of
from tardis_machine.app.settings.shorthand import without_shorthand
from tardis_machine.app.wiring import open_server


class TardisMachine:
    """A server that runs in this process, or in worker processes of it.

    Takes the options of `tardis-machine serve` by their names, in snake or camel case (`cache_dir`,
    `cacheDir`); those of a table as a mapping (`kafka={…}`), and one bus with its delivery also as
    `event_bus={"provider": "kafka", …}`. It never reads the environment or files, and leaves what
    is logged to the application.
    """

    def __init__(self, **options: Any) -> None:
        self.settings = settings_of(ServeSettings, without_shorthand(options))
        self._stack = AsyncExitStack()

    @property
    def http_url(self) -> str:
        """Return the URL of the HTTP port."""
        return f"http{self._secure}://{self._host}:{self.settings.server.port}"

    @property
    def ws_url(self) -> str:
        """Return the URL of the WebSocket port."""
        return f"ws{self._secure}://{self._host}:{self.settings.server.port + 1}"

    @property
    def _secure(self) -> str:
        return "" if self.settings.server.tls_cert is None else "s"

    @property
    def _host(self) -> str:
        host = self.settings.server.host
        return f"[{host}]" if ":" in host else host

    async def start(self) -> None:
        """Open both ports."""
        await self._stack.enter_async_context(open_server(self.settings))

    async def stop(self) -> None:
        """Close both ports and every connection; it may be started again."""
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()
