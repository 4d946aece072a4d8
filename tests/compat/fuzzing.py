"""Inputs for both ports that no client should send, from a seed."""

import gzip
import json
import os
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

ENTRY = {
    "exchange": "bitmex",
    "symbols": ["XBTUSD"],
    "from": "2024-03-01",
    "to": "2024-03-01T00:01",
    "dataTypes": ["trade", "book_change", "quote", "trade_bar_10s", "book_snapshot_5_1s"],
}
RAW = {
    "exchange": "bitmex",
    "from": "2024-03-01",
    "to": "2024-03-01T00:01",
    "filters": [{"channel": "trade", "symbols": ["XBTUSD"]}],
}
FIELDS = (
    *("withDisconnectMessages", "withDisconnects", "apiKey", "autoCleanup", "exactRange"),
    *("speed", "trimLevels", "waitWhenDataNotYetAvailable"),
)
TEXTS = (
    *("", "x" * 3000, "\x00", "😀", "\ud800", "null", "bitmx", "BITMEX", "XBTUSD", "-1"),
    *("0000-00-00", "9999-12-31", "275760-09-13", "2024-13-01", "2024-03-01T24:00", "1e400"),
    *("book_snapshot_-1_0ms", "book_snapshot_1e300_1s", "book_snapshot_5_grouped0_1s"),
    *("book_snapshot_5_grouped1e-320_1s", "book_snapshot_10000_0ms", "quote_", "quote_NaNs"),
    *("trade_bar_0s", "trade_bar_Infinityvol", "trade_bar_1e300m", "trade_bar_0x10ticks"),
)
NUMBERS = ("0", "-0", "-1", "1e308", "1e400", "1" + "0" * 400, "0.1", "9007199254740993", "1e-320")
OTHERS = ("null", "true", "false", "[]", "{}", "[[]]", '[{"":[]}]', "[" * 900 + "]" * 900)
METHODS = ("GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "get", "G\x00T", "CONNECT")
PATHS = (
    *("/replay", "/replay-normalized", "/health-check", "/metrics", "/", "/ws-replay", "*"),
    *("//", "/%00", "/replay/..", "http://[::1", "/ws-replay-normalized", "/replay?options"),
)
HEADERS = (
    *("Host: localhost", "Host: evil.example", "Host:", "Origin: null", "Upgrade: websocket"),
    *("Connection: upgrade", "Connection: close", "Content-Length: -1", "Content-Length: 5"),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip", "Content-Encoding: gzip"),
    *("Content-Encoding: deflate", "Expect: 100-continue", "Authorization: \xff\xfe", "X" * 9000),
    *(": empty", "A\x00: b", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 99", " folded: line"),
)


@dataclass(frozen=True)
class Input:
    """What is sent on a new connection."""

    port_offset: int
    """0 for HTTP, 1 for WebSocket."""
    data: bytes
    is_request: bool
    """An HTTP request as far as its head goes, so that an answer is due."""

    def __str__(self) -> str:
        return repr(self.data[:600]) + ("…" if len(self.data) > 600 else "")


class Inputs:
    """Makes one input after another; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._kinds: tuple[tuple[int, Callable[[], bytes], bool], ...] = (
            (0, self._options, True),
            (0, self._body, True),
            (0, self._wrong_size, True),
            (0, self._head, False),
            (1, self._upgraded_options, True),
            (1, self._frames, True),
            (1, self._head, False),
        )

    def next(self) -> Input:
        """Return the next input."""
        port_offset, make, is_request = self._random.choice(self._kinds)
        return Input(port_offset, make(), is_request)

    def _options_text(self, path: str) -> str:
        entry = dict(RAW if path.endswith("/replay") else ENTRY)
        text = json.dumps(entry)
        for _ in range(self._random.randint(0, 2)):
            name = self._random.choice([*entry, *FIELDS])
            entry[name] = "VALUE"
            text = json.dumps(entry).replace('"VALUE"', self._value())
        if self._random.random() < 0.2:
            text = f"[{','.join([text] * self._random.randint(0, 5))}]"
        if self._random.random() < 0.2:
            text = self._damaged(text.encode(errors="surrogatepass")).decode("latin-1")
        return text

    def _value(self) -> str:
        text = json.dumps(self._random.choice(TEXTS))
        choices = (
            text,
            f"[{text}]",
            f"[{text},{text}]",
            f'[{{"channel":{text},"symbols":{text}}}]',
        )
        return self._random.choice((*choices, *NUMBERS, *OTHERS))

    def _options(self) -> bytes:
        path = self._random.choice(("/replay", "/replay-normalized"))
        target = f"{path}?options={self._quoted(self._options_text(path))}"
        return f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def _body(self) -> bytes:
        path, body, encoding = self._content()
        return self._post(path, body, len(body), encoding)

    def _wrong_size(self) -> bytes:
        path, body, encoding = self._content()
        return self._post(path, body, max(0, len(body) + self._random.randint(-3, 3)), encoding)

    def _content(self) -> tuple[str, bytes, str]:
        """Return the path of a POST, its body and how that is encoded."""
        path = self._random.choice(("/replay", "/replay-normalized"))
        body = self._options_text(path).encode(errors="replace")
        encoding = self._random.choice(("", "", "gzip", "gzip", "deflate"))
        if encoding == "gzip":
            body = gzip.compress(body, mtime=0)
        if encoding and self._random.random() < 0.5:
            body = self._damaged(body)
        return path, body, encoding

    def _post(self, path: str, body: bytes, size: int, encoding: str) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n"
        if encoding:
            head += f"Content-Encoding: {encoding}\r\n"
        return f"{head}\r\n".encode() + body

    def _head(self) -> bytes:
        choose = self._random.choice
        first = (
            f"{choose(METHODS)} {choose(PATHS)} {choose(('HTTP/1.1', 'HTTP/1.0', 'HTTP/9', ''))}"
        )
        lines = [first, *(choose(HEADERS) for _ in range(self._random.randint(0, 6))), "", ""]
        head = "\r\n".join(lines).encode("latin-1")
        return self._damaged(head) if self._random.random() < 0.3 else head

    def _upgraded_options(self) -> bytes:
        path = "/ws-replay-normalized"
        return self._upgrade(f"{path}?options={self._quoted(self._options_text(path))}")

    def _frames(self) -> bytes:
        target = f"/ws-replay?exchange=bitmex&from={RAW['from']}&to={RAW['to']}"
        if self._random.random() < 0.2:
            target = f"/ws-replay-normalized?options={self._quoted(json.dumps(ENTRY))}"
        elif self._random.random() < 0.3:
            target += f"&session={self._random.randint(0, 3)}&{self._quoted(self._value())}"
        frames = [self._frame() for _ in range(self._random.randint(0, 5))]
        return self._upgrade(target) + b"".join(frames)

    def _frame(self) -> bytes:
        choose = self._random.choice
        subscribe = f'{{"op":"subscribe","args":{self._value()}}}'.encode(errors="replace")
        payload = choose((subscribe, b"", self._bytes(20), self._bytes(130), b"\x03\xe8bye"))
        first = choose(
            (0x81, 0x81, 0x01, 0x80, 0x82, 0x88, 0x89, 0x8A, self._random.randrange(256))
        )
        mask = b"\0\0\0\0" if self._random.random() < 0.9 else b""
        flag = 0x80 if mask else 0
        if self._random.random() < 0.05:
            # A size that no buffer may be made for.
            head = struct.pack("!BBQ", first, flag | 127, self._random.choice((1 << 20, 1 << 62)))
        elif len(payload) < 126:
            head = struct.pack("!BB", first, flag | len(payload))
        else:
            head = struct.pack("!BBH", first, flag | 126, len(payload))
        frame = head + mask + payload
        return self._damaged(frame) if self._random.random() < 0.2 else frame

    def _upgrade(self, target: str) -> bytes:
        return (
            f"GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\n\r\n"
        ).encode()

    def _damaged(self, data: bytes) -> bytes:
        """Flip, drop or repeat some bytes."""
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 4)):
            place = self._random.randrange(len(changed) + 1)
            action = self._random.randrange(3)
            if action == 0:
                changed[place : place + 1] = self._bytes(1)
            elif action == 1:
                del changed[place : place + self._random.randint(1, 20)]
            else:
                changed[place:place] = changed[place : place + 20] or self._bytes(3)
        return bytes(changed)

    def _bytes(self, count: int) -> bytes:
        return bytes(self._random.randrange(256) for _ in range(count))

    def _quoted(self, text: str) -> str:
        return quote(text.encode(errors="surrogatepass"))


def inputs_wanted(default: int) -> int:
    """Return how many inputs to send; `TM_FUZZ_INPUTS` decides."""
    return int(os.environ.get("TM_FUZZ_INPUTS", default))


def is_documented(answer: bytes) -> bool:
    """Say whether the documents name this kind of answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not head.startswith(b"HTTP/") or len(words) < 3:
        return False
    match words[1]:
        case b"500":
            # What the API answers to a request it cannot serve, with the reason.
            return b'"message":' in body
        case b"503":
            return b"Retry-After" in head
        case status:
            return b"100" <= status < b"500"
