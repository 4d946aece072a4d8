"""One WebSocket to an exchange: opened, kept alive, read."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NoReturn

import aiohttp
from aiohttp import WSMessageTypeError, WSMsgType

from tardis_machine.sources.live.errors import ExchangeError
from tardis_machine.sources.live.rest.client import retry_after_seconds
from tardis_machine.version import __version__

HANDSHAKE_SECONDS = 10.0
CLOSE_SECONDS = 1.0
"""How long the exchange may take to answer our close frame."""

TAKEN_SECONDS = 0.01
"""How long messages are taken one after another before others have their turn."""

PING_SECONDS = 5.0
MAX_MESSAGE_BYTES = 16 * 1_048_576

HEADERS = {"User-Agent": f"Mozilla/5.0 (compatible; tardis-machine/{__version__})"}
"""Some exchanges refuse clients whose name does not look like that of a browser."""

_CLOSED = (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED)


class Connection:
    """An open WebSocket."""

    def __init__(self, websocket: "aiohttp.ClientWebSocketResponse[bool]") -> None:
        self._websocket = websocket
        self._now = asyncio.get_running_loop().time
        self.opened = self.last_sign = self._now()
        """When the exchange last sent anything, be it the answer to a ping."""

    @property
    def silent_seconds(self) -> float:
        """Return for how long nothing came."""
        return self._now() - self.last_sign

    async def send(self, frame: str) -> None:
        """Send a text frame; on a connection that ends wait for whoever reads to notice."""
        with suppress(ConnectionError, aiohttp.ClientError):
            await self._websocket.send_str(frame)
            return
        await asyncio.Event().wait()

    async def keep_alive(self, write_ping: Callable[[], str] | None) -> None:
        """Ping the exchange in its own way, or by ping frames, as long as the connection lasts."""
        while True:
            await asyncio.sleep(PING_SECONDS)
            if write_ping is not None:
                await self.send(write_ping())
            else:
                with suppress(ConnectionError, aiohttp.ClientError):
                    await self._websocket.ping()

    async def read(
        self, take: Callable[[bytes], None], unpack: Callable[[bytes], bytes] | None = None
    ) -> str:
        """Hand on messages until the exchange closes the connection; return how it did.

        Args:
            take: takes each message.
            unpack: makes a message from a binary frame, if the exchange sends any.

        Raises:
            ExchangeError: a frame cannot be read.
        """
        receive, websocket = self._websocket.receive, self._websocket
        since = self._now()
        while True:
            message = await receive()
            kind = message.type
            if kind is WSMsgType.TEXT:
                self.last_sign = self._now()
                take(message.data)
                if self.last_sign - since > TAKEN_SECONDS:
                    # Messages that are at hand already are read without a pause.
                    await asyncio.sleep(0)
                    since = self._now()
            elif kind is WSMsgType.PING:
                self.last_sign = self._now()
                await websocket.pong(message.data)
            elif kind is WSMsgType.PONG:
                self.last_sign = self._now()
            elif kind is WSMsgType.BINARY and unpack is not None:
                self.last_sign = self._now()
                take(_unpacked(message.data, unpack))
            elif kind in _CLOSED:
                return f"close code {websocket.close_code} {message.extra or ''}".rstrip()
            else:
                _refuse(kind, message.data)


def _unpacked(frame: bytes, unpack: Callable[[bytes], bytes]) -> bytes:
    try:
        return unpack(frame)
    except Exception as error:
        # Whatever a decompressor raises for bytes that are not its own.
        raise ExchangeError(f"Received a binary frame that cannot be unpacked: {error}") from error


def _refuse(kind: WSMsgType, data: object) -> NoReturn:
    if kind is WSMsgType.BINARY:
        raise ExchangeError("Received a binary frame; this exchange sends text.")
    raise ExchangeError(f"Received a frame that cannot be read: {data}")


@asynccontextmanager
async def open_connection(
    session: aiohttp.ClientSession, url: str, proxy: str | None, headers: Mapping[str, str]
) -> AsyncIterator[Connection]:
    """Connect to an address, with headers of the venue's own; it is closed in the end.

    Raises:
        ExchangeError: nobody answers there, or the handshake is refused.
    """
    try:
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            websocket = await session.ws_connect(
                url,
                proxy=proxy,
                headers={**HEADERS, **headers},
                autoping=False,
                max_msg_size=MAX_MESSAGE_BYTES,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS),
                decode_text=False,
            )
    except aiohttp.WSServerHandshakeError as error:
        wait_seconds = retry_after_seconds(error.status, error.headers or {})
        raise ExchangeError(
            f"Unexpected server response: {error.status}", wait_seconds=wait_seconds
        ) from error
    except (aiohttp.ClientError, TimeoutError, OSError, WSMessageTypeError, ValueError) as error:
        raise ExchangeError(
            f"Cannot connect to {url}: {str(error) or type(error).__name__}"
        ) from error
    try:
        yield Connection(websocket)
    finally:
        await websocket.close()
