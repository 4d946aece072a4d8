"""Downloads from the data API over one HTTP session."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from io import BytesIO

import aiohttp
from yarl import URL

from tardis_machine.model.errors import SliceError, SourceError, UpstreamStatusError
from tardis_machine.model.time import SECOND_US
from tardis_machine.sources.cache import SliceFile, SliceFolder, UnconfirmedFile
from tardis_machine.sources.context import ArchiveContext
from tardis_machine.sources.data_api import SliceRequest, StoredSlice
from tardis_machine.sources.limits import TransientError
from tardis_machine.sources.settings import ArchiveSettings
from tardis_machine.sources.slices import decompress
from tardis_machine.version import __version__

USER_AGENT = f"tardis-machine/{__version__} (+tardis-machine for Python)"

_FINAL_STATUSES = frozenset({400, 401, 403, 404})
_SUFFIXES = {"zstd": ".zst", "gzip": ".gz", "": ".gz"}
_NO_KEY = (
    "No API key was given: set --api-key, TM_API_KEY or the field apiKey of the request (api_key "
    "in Python). Without a key, only the first day of each month is available."
)
_MAX_ERROR_BYTES = 64 * 1024
# A wrong URL (ValueError, as InvalidURL is) or certificate does not get better by itself.
_HOPELESS_ERRORS = (ValueError, aiohttp.ClientConnectorCertificateError)


class Downloads:
    """An HTTP session, and how answers become slices in the cache."""

    def __init__(self, context: ArchiveContext) -> None:
        self._settings = context.settings
        self._metrics = context.metrics
        self._clock = context.timing.clock
        self._session = open_session(context.settings)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def store(self, url: str, request: SliceRequest, folder: SliceFolder) -> StoredSlice:
        """Fetch a slice into a folder in one attempt, whole or not at all.

        Raises:
            TransientError: another attempt may succeed.
            SourceError: none will.
        """
        try:
            async with self._open(url, request.api_key) as response:
                await self._check(response, url, request.api_key)
                return await self._store(response, request, folder)
        except _HOPELESS_ERRORS as error:
            raise SourceError(f"The request to the data API at {url} failed: {error}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            reason = type(error).__name__
            final = SourceError(f"The data API did not answer at {url}: {str(error) or reason}")
            raise TransientError(final, reason=reason) from error
        except OSError as error:
            raise SourceError(f"A slice could not be written to {folder.path}: {error}") from error

    @asynccontextmanager
    async def _open(self, url: str, api_key: str | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the request and follow one redirect, to another origin without the key."""
        target = URL(url, encoded=True)
        headers = self._headers(api_key)
        async with self._get(target, headers) as response:
            location = response.headers.get("Location")
            if not 300 <= response.status < 400 or location is None:
                yield response
                return
        moved = target.join(URL(location, encoded=True))
        if moved.origin() != target.origin():
            headers.pop("Authorization", None)
        async with self._get(moved, headers) as response:
            yield response

    def _get(self, url: URL, headers: Mapping[str, str]) -> "aiohttp.client._RequestContextManager":
        return self._session.get(
            url, headers=headers, allow_redirects=False, proxy=self._settings.http_proxy
        )

    def _headers(self, api_key: str | None) -> dict[str, str]:
        accepts_zstd = self._settings.compression == "zstd"
        headers = {
            "Accept-Encoding": "zstd, gzip" if accepts_zstd else "gzip",
            "User-Agent": USER_AGENT,
        }
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        return headers

    async def _check(self, response: aiohttp.ClientResponse, url: str, api_key: str | None) -> None:
        if response.status == 200:
            return
        text = await _error_text(response)
        if api_key:
            # A server that repeats the request would show the key to every client.
            text = text.replace(api_key, "***")
        hint = _NO_KEY if response.status == 401 and not api_key else ""
        final = UpstreamStatusError(response.status, text, url, hint)
        if response.status < 400 or _is_final(response.status, text):
            raise final
        now_us = self._clock()
        retry_after_seconds = _retry_after_seconds(response.headers, now_us)
        raise TransientError(
            final,
            reason=str(response.status),
            status=response.status,
            retry_after_seconds=retry_after_seconds,
        )

    async def _store(
        self, response: aiohttp.ClientResponse, request: SliceRequest, folder: SliceFolder
    ) -> StoredSlice:
        encoding = response.headers.get("Content-Encoding", "")
        suffix = _SUFFIXES.get(encoding.strip().lower())
        if suffix is None:
            raise SourceError(f"Unsupported data feed content encoding: {encoding}")
        # The name must tell the truth about the minutes inside, or later replays lose some.
        minutes = _count(response.headers, "x-slice-size", request.minutes)
        with (
            self._metrics.active_downloads.track_inprogress(),
            UnconfirmedFile(folder.base_path(request.start_us, minutes)) as file,
        ):
            # aiohttp raises when the body ends before its announced length.
            async for data in response.content.iter_any():
                file.write(data)
            path = file.confirm(suffix)
        self._metrics.downloaded_bytes.inc(file.size_bytes)
        stored = SliceFile(path, request.start_us, minutes, folder.is_whole_feed)
        return StoredSlice(stored, _count(response.headers, "x-suggested-slice-size", 1))


def open_session(settings: ArchiveSettings) -> aiohttp.ClientSession:
    """Return the HTTP session of `Downloads`: slices are stored as they come."""
    timeout = aiohttp.ClientTimeout(
        total=None,
        sock_connect=settings.connect_timeout_seconds,
        sock_read=settings.idle_timeout_seconds,
    )
    # The limiter bounds the connections; a second bound here could only hide a stall.
    connector = aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, trust_env=False
    )


async def _error_text(response: aiohttp.ClientResponse) -> str:
    """Return the body of an error response, which may be compressed like a slice."""
    body = b""
    async for data in response.content.iter_any():
        body += data
        if len(body) > _MAX_ERROR_BYTES:
            break
    suffix = _SUFFIXES.get(response.headers.get("Content-Encoding", "identity"))
    if suffix:
        with suppress(SliceError):
            # The first piece will do: a few bytes may expand to gigabytes.
            body = next(decompress(BytesIO(body), suffix), b"")
    return body.decode(errors="replace")


def _count(headers: Mapping[str, str], name: str, default: int) -> int:
    """Read a positive number from a header, or take the default when it is absent or wrong."""
    text = headers.get(name, "")
    return int(text) if text.isdecimal() and int(text) > 0 else default


def _is_final(status: int, text: str) -> bool:
    # The API sometimes rejects a valid date by mistake, so that this error is retried.
    is_date_refusal = status == 400 and "ISO 8601 format" in text
    return status in _FINAL_STATUSES and not is_date_refusal


def _retry_after_seconds(headers: Mapping[str, str], now_us: int) -> float | None:
    """Read Retry-After, given in seconds or as a date."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, moment.timestamp() - now_us / SECOND_US)
