"""WebSocket frames, read back by a reader of our own."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tardis_machine.server.ws_frames import (
    _line_frames,
    close_frame,
    close_reason,
    line_frames,
    ping_frame,
    text_frames,
)


def read_frames(data: bytes) -> list[tuple[int, bytes]]:
    """Return first byte and payload of each unmasked frame, by the letter of RFC 6455."""
    frames = []
    place = 0
    while place < len(data):
        first, length = data[place], data[place + 1]
        place += 2
        assert length < 128, "masked"
        if length == 126:
            (length,) = struct.unpack_from("!H", data, place)
            assert length > 125, "not the shortest form"
            place += 2
        elif length == 127:
            (length,) = struct.unpack_from("!Q", data, place)
            assert length > 65_535, "not the shortest form"
            place += 8
        frames.append((first, data[place : place + length]))
        place += length
    return frames


@pytest.mark.parametrize("length", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_every_length_has_its_header(length: int) -> None:
    assert read_frames(text_frames([b"x" * length])) == [(0x81, b"x" * length)]
    assert read_frames(line_frames(b"x" * length + b"\n")) == [(0x81, b"x" * length)]


def test_each_message_is_one_final_text_frame() -> None:
    messages = [b'{"a":1}', "\u20ac".encode(), b"y" * 300]
    assert read_frames(text_frames(messages)) == [(0x81, message) for message in messages]
    assert text_frames([]) == b""


def test_control_frames_are_final_and_short() -> None:
    assert read_frames(ping_frame(b"end")) == [(0x89, b"end")]
    assert read_frames(close_frame(1000, "done")) == [(0x88, b"\x03\xe8done")]
    ((first, payload),) = read_frames(close_frame(1011, "x" * 500))
    assert (first, len(payload)) == (0x88, 122)


def test_short_reason_is_kept() -> None:
    assert close_reason("WS replay finished") == b"WS replay finished"
    assert close_reason("x" * 123) == b"x" * 123


def test_long_reason_is_cut_to_120_bytes() -> None:
    assert close_reason("x" * 124) == b"x" * 120


@pytest.mark.parametrize("padding", [0, 1, 2, 3])
def test_character_split_by_the_cut_is_replaced(padding: int) -> None:
    reason = close_reason("x" * padding + "\U0001f680" * 50)
    assert len(reason) <= 123
    text = reason.decode()
    assert text.endswith("\ufffd") == (padding > 0)


@given(st.lists(st.binary(max_size=300) | st.integers(0, 70_000).map(bytes)), st.binary(max_size=3))
def test_frames_of_lines_are_those_of_their_messages(messages: list[bytes], rest: bytes) -> None:
    lines = b"".join(message + b"\n" for message in messages) + rest
    assert line_frames(lines) == _line_frames(lines)
