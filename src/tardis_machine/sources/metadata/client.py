"""Ask the data API for the instruments of an exchange; answers are kept for a day."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec

from tardis_machine.exchanges.instruments.metadata import InstrumentInfo
from tardis_machine.model.errors import OfflineError, SourceError, UpstreamStatusError
from tardis_machine.version import __version__

MAX_ATTEMPTS = 3
MAX_BYTES = 256 << 20
FRESH_SECONDS = 86_400.0
_PAUSE_SECONDS = 0.25
_MAX_PAUSE_SECONDS = 5.0
_TOO_SLOW_OR_MANY = (408, 429)
_HINTS = {
    401: "Set --api-key or TM_API_KEY to a key of a pro or business subscription.",
    403: "The subscription of this API key does not include instrument metadata.",
    404: "The data API knows no instruments of this exchange.",
}


@dataclass(frozen=True, kw_only=True)
class MetadataSettings:
    """Where instruments are asked for."""

    endpoint: str
    cache_dir: Path
    api_key: str | None = field(default=None, repr=False)
    http_proxy: str | None = field(default=None, repr=False)
    offline: bool = False
    connect_timeout_seconds: float = 30.0
    idle_timeout_seconds: float = 90.0


class InstrumentsApi:
    """The instruments of exchanges, from the cache or the data API."""

    def __init__(self, settings: MetadataSettings) -> None:
        self._settings = settings

    async def fetch(self, exchange: str) -> list[InstrumentInfo]:
        """Return all instruments of an exchange.

        Raises:
            OfflineError: the cache has none and the network may not be used.
            UpstreamStatusError: the data API refused.
            SourceError: it did not answer, or not in the documented form.
        """
        path = self._settings.cache_dir / "instruments" / f"{exchange}.json"
        if self._is_usable(path):
            return decoded(path.read_bytes(), str(path))
        if self._settings.offline:
            raise OfflineError(
                f"The instruments of {exchange} are not in {path}, and --offline is set. Run it "
                "once without --offline."
            )
        url = f"{self._settings.endpoint.rstrip('/')}/instruments/{exchange}"
        body = await self._ask(url)
        found = decoded(body, url)
        _store(path, body)
        return found

    def _is_usable(self, path: Path) -> bool:
        if not path.exists():
            return False
        return self._settings.offline or time.time() - path.stat().st_mtime < FRESH_SECONDS

    async def _ask(self, url: str) -> bytes:
        """Return the body of an answer, with as many attempts as are granted."""
        settings = self._settings
        timeout = aiohttp.ClientTimeout(
            sock_connect=settings.connect_timeout_seconds, sock_read=settings.idle_timeout_seconds
        )
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for number in range(1, MAX_ATTEMPTS + 1):
                try:
                    return await self._attempt(session, url)
                except (UpstreamStatusError, aiohttp.ClientError, TimeoutError) as error:
                    if number == MAX_ATTEMPTS or not _may_pass(error):
                        raise _final(error, url) from error
                await asyncio.sleep(min(_PAUSE_SECONDS * 2**number, _MAX_PAUSE_SECONDS))
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _attempt(self, session: aiohttp.ClientSession, url: str) -> bytes:
        headers = {"User-Agent": f"tardis-machine/{__version__} (+tardis-machine for Python)"}
        if key := self._settings.api_key:
            headers["Authorization"] = f"Bearer {key}"
        # A redirect to another origin would take the key along.
        async with session.get(
            url, headers=headers, allow_redirects=False, proxy=self._settings.http_proxy
        ) as response:
            body = await _bounded(response, url)
            if response.status == 200:
                return body
            text = body.decode(errors="replace")[:2000]
            text = text.replace(key, "***") if key else text
            raise UpstreamStatusError(response.status, text, url, _HINTS.get(response.status, ""))


async def _bounded(response: aiohttp.ClientResponse, url: str) -> bytes:
    body = bytearray()
    async for data in response.content.iter_any():
        body += data
        if len(body) > MAX_BYTES:
            raise SourceError(f"The answer of {url} has more than {MAX_BYTES >> 20} MiB.")
    return bytes(body)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, UpstreamStatusError):
        return error.status in _TOO_SLOW_OR_MANY or error.status >= 500
    return not isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.InvalidURL)


def _final(error: Exception, url: str) -> Exception:
    if isinstance(error, UpstreamStatusError):
        return error
    reason = str(error) or type(error).__name__
    return SourceError(f"The data API did not answer at {url}: {reason}")


def _store(path: Path, body: bytes) -> None:
    """Keep an answer, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(body)
        part.replace(path)
    except OSError as error:
        raise SourceError(f"{path} cannot be written: {error}") from error


def decoded(body: bytes, place: str) -> list[InstrumentInfo]:
    """Read a list of instruments."""
    try:
        return msgspec.json.decode(body, type=list[InstrumentInfo])
    except msgspec.DecodeError as error:
        raise SourceError(f"{place} is not a list of instruments as documented: {error}") from error
