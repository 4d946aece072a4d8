"""The server as an object: `async with TardisMachine(port=8000) as machine`."""

from contextlib import AsyncExitStack
from dataclasses import fields
from types import TracebackType
from typing import Any, Self

from tardis_machine.app.settings import ServeSettings
from tardis_machine.app.wiring import open_server
from tardis_machine.model.errors import SettingsError, nearest_hint
from tardis_machine.model.settings import Secret
from tardis_machine.server.settings import ServerSettings
from tardis_machine.sources.settings import ArchiveSettings


class TardisMachine:
    """A server inside this process.

    Takes the options of the command line by their Python names (`port`, `cache_dir`, `offline`, …).
    It never reads the environment or files.
    """

    def __init__(self, **options: Any) -> None:
        server, archive = _split(options)
        self.settings = ServeSettings(
            server=ServerSettings(**server), archive=ArchiveSettings(**archive)
        )
        self._stack = AsyncExitStack()

    @property
    def http_url(self) -> str:
        """Return the address of the HTTP port."""
        return f"http://{self.settings.server.host}:{self.settings.server.port}"

    @property
    def ws_url(self) -> str:
        """Return the address of the WebSocket port."""
        return f"ws://{self.settings.server.host}:{self.settings.server.port + 1}"

    async def start(self) -> None:
        """Open both ports."""
        await self._stack.enter_async_context(open_server(self.settings))

    async def stop(self) -> None:
        """Close both ports and every connection."""
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


def _split(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sort options by the settings class that declares them."""
    server = {each.name for each in fields(ServerSettings)}
    archive = {each.name for each in fields(ArchiveSettings)}
    unknown = [name for name in options if name not in server | archive]
    if unknown:
        valid = sorted(server | archive)
        raise SettingsError(
            *(f"Unknown option {name!r}.{nearest_hint(name, valid)}" for name in unknown)
        )
    if isinstance(options.get("token"), str):
        options = options | {"token": Secret(options["token"])}
    return (
        {name: value for name, value in options.items() if name in server},
        {name: value for name, value in options.items() if name in archive},
    )
