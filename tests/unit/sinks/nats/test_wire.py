"""Answers read many at a time, wherever the network cuts them; the fence around private places."""

from collections.abc import Iterable
from typing import Any

import pytest

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.sinks.nats.records import RecordHeaders, headers_of, plain
from tardis_machine.sinks.nats.wire import AckParser, PlainWire, is_tested, make_wire
from tests.contract.sinks import make_events

INBOX = "_INBOX.abc."


class Client:
    """What a parser needs of its client."""

    def __init__(self) -> None:
        self.messages: list[tuple[bytes, bytes, bytes]] = []
        self.pings = 0

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        self.messages.append((bytes(subject), bytes(data), bytes(headers or b"")))

    async def _process_ping(self) -> None:
        self.pings += 1


def ack(number: int, more: str = "") -> bytes:
    payload = f'{{"stream":"s", "seq":{number}{more}}}'.encode()
    return b"MSG %b%d 1 %d\r\n%b\r\n" % (INBOX.encode(), number, len(payload), payload)


STATUS = b"NATS/1.0 503\r\n\r\n"
NO_STREAM = b"HMSG %b6 1 16 16\r\n%b\r\n" % (INBOX.encode(), STATUS)
TRAFFIC = b"".join(
    [ack(1), ack(2), b"PING\r\n", ack(3), ack(4, ', "duplicate":true'), ack(5), NO_STREAM, ack(7)]
)


async def parse(pieces: Iterable[bytes]) -> tuple[list[int], Client]:
    client, numbers = Client(), list[int]()
    parser = AckParser(client, INBOX, numbers.extend)  # type: ignore[arg-type]
    for piece in pieces:
        await parser.parse(piece)
    return numbers, client


def seen(numbers: list[int], client: Client) -> set[int]:
    """Return the numbers of all answers, however they were read."""
    return {*numbers, *(int(subject.rpartition(b".")[2]) for subject, _, _ in client.messages)}


async def test_runs_of_answers_are_read_at_once() -> None:
    numbers, client = await parse([ack(1) + ack(2) + ack(3)])
    assert numbers == [1, 2, 3]
    assert client.messages == []


@pytest.mark.parametrize("size", [1, 2, 7, 50, 61, 1000])
async def test_pieces_of_any_size_lose_and_double_nothing(size: int) -> None:
    pieces = [TRAFFIC[start : start + size] for start in range(0, len(TRAFFIC), size)]
    numbers, client = await parse(pieces)
    assert seen(numbers, client) == {1, 2, 3, 4, 5, 6, 7}
    assert len(numbers) + len(client.messages) == 7
    assert client.pings == 1


async def test_every_cut_in_two_gives_the_same() -> None:
    for cut in range(1, len(TRAFFIC)):
        numbers, client = await parse([TRAFFIC[:cut], TRAFFIC[cut:]])
        assert seen(numbers, client) == {1, 2, 3, 4, 5, 6, 7}, cut
        assert len(numbers) + len(client.messages) == 7


async def test_answers_that_are_no_plain_yes_are_left_to_the_client() -> None:
    error = b'{"error":{"code":503,"err_code":10077},"stream":"s","seq":0}'
    refusal = b"MSG %b9 1 %d\r\n%b\r\n" % (INBOX.encode(), len(error), error)
    numbers, client = await parse([refusal, ack(4, ', "duplicate":true'), NO_STREAM])
    assert numbers == []
    assert client.messages[0][1] == error
    assert client.messages[2][2] == STATUS


async def test_answers_to_another_inbox_are_left_to_the_client() -> None:
    other = ack(1).replace(b"_INBOX.abc", b"_INBOX.xyz")
    numbers, client = await parse([other])
    assert (numbers, len(client.messages)) == ([], 1)


def test_installed_version_is_one_we_know() -> None:
    assert is_tested()


def test_unknown_version_is_used_by_its_public_calls() -> None:
    client: Any = Client()
    wire = make_wire(client, INBOX, lambda _: None, is_fast=False)
    assert isinstance(wire, PlainWire)
    assert not hasattr(client, "_ps")


def test_header_block_reads_back_as_its_headers() -> None:
    settings = NatsSettings(
        servers=("nats://h",), subject="s", static_headers={"env": "a: b"}, stream="S"
    )
    (event,) = make_events(settings.router(), 1)
    for kind, own_id in (("sequence", event.delivery_id), ("content", event.event_id)):
        block = RecordHeaders(settings, kind).text(event, "before")  # type: ignore[arg-type]
        assert headers_of(block) == {
            "payloadCase": "trade",
            "dataType": "trade",
            "env": "a: b",
            "Nats-Expected-Stream": "S",
            "eventId": event.event_id,
            "deliveryId": event.delivery_id,
            "Nats-Msg-Id": own_id,
            "Nats-Expected-Last-Msg-Id": "before",
        }


def test_text_beyond_ascii_is_escaped_and_stays_distinct() -> None:
    assert plain("a b~") == "a b~"
    assert plain("ü\r\n") == "%C3%BC%0D%0A"
    assert plain("ä") != plain("ö")
