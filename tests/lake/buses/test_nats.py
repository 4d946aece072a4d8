"""The reader of NATS JetStream, held to the contract of all readers, and what only NATS has."""

import asyncio
import base64
import dataclasses
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nkeys
import pytest
from nats.js import JetStreamContext

from tardis_machine.buses.nats.settings import NatsSettings
from tardis_machine.lake.buses.client import ReadPolicy
from tardis_machine.lake.buses.nats.login import login
from tardis_machine.lake.buses.nats.protocol import parse
from tardis_machine.lake.buses.nats.reader import NatsBus
from tardis_machine.lake.buses.source import StreamReader
from tardis_machine.lake.errors import BusError, DataLossError
from tardis_machine.model.settings import Secret
from tests.contract.bus_readers import (
    POLICY,
    BusReaderContract,
    MicroBatches,
    ReadableBus,
    all_envelopes,
    envelopes_by_lane,
    numbered,
    rows_of,
)
from tests.servers import places
from tests.servers.nats import Nats, make_nkey
from tests.servers.plugin import unique_name
from tests.servers.readers import connect_nats
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

PASSWORD = "nats-hush-hush"


class NatsUnderTest:
    """A stream of a server, whose name is also the first word of its subjects."""

    has_nulls = False
    is_anew_after_trim = False
    keeps_planned = False
    has_times = True
    has_server = True

    def __init__(self, server: Nats, **login: Any) -> None:
        self.server = server
        self.stream = unique_name("stream")
        self._login = server.login | login
        self.secrets = [PASSWORD]
        self.settings = self.settings_for()
        self.bus = NatsBus(self.settings)
        self.do(self._create)

    def settings_for(self, **options: Any) -> NatsSettings:
        known = self.server.login
        secret = Secret(known["password"]) if known else None
        given: dict[str, Any] = {
            "subject": self.stream,
            "user": known.get("user"),
            "password": secret,
        }
        given["servers"] = (self.server.address,)
        return NatsSettings(**(given | options))

    async def _create(self, stream: JetStreamContext) -> None:
        await stream.add_stream(name=self.stream, subjects=[self.stream, f"{self.stream}.>"])

    def do(self, work: Callable[[JetStreamContext], Awaitable[Any]]) -> Any:
        async def run() -> Any:
            async with await connect_nats(self.server.address, **self._login) as client:
                return await work(client.jetstream())

        return asyncio.run(run())

    def write(self, envelopes: Sequence[bytes | None], subject: str | None = None) -> None:
        async def publish(stream: JetStreamContext) -> None:
            for number, envelope in enumerate(envelopes):
                headers = {"payloadCase": "trade"} if number % 2 else None
                await stream.publish(subject or self.stream, envelope or b"", headers=headers)

        self.do(publish)

    def trim(self) -> None:
        self.do(lambda stream: stream.purge_stream(self.stream))

    def take_down(self) -> None:
        self.server.kill()

    def bring_back(self) -> None:
        self.server.start()


@pytest.fixture(scope="module")
def secret_nats() -> Iterator[Nats]:
    with Nats(users={"reader": PASSWORD}) as server:
        yield server


@pytest.fixture
def readable(secret_nats: Nats) -> ReadableBus:
    secret_nats.heal()
    return NatsUnderTest(secret_nats)


@pytest.fixture(params=places.nats_servers(), ids=lambda path: path.parent.parent.name)
def any_nats(request: pytest.FixtureRequest) -> Iterator[Nats]:
    with Nats(binary=request.param) as server:
        yield server


@pytest.fixture
def nats_bus(nats_server: Nats) -> NatsUnderTest:
    return NatsUnderTest(nats_server)


class TestNats(BusReaderContract):
    pass


def test_range_is_cut_into_tasks_that_hold_all(any_nats: Nats) -> None:
    bus = NatsUnderTest(any_nats)
    bus.write(numbered(500))
    reader = StreamReader(bus.bus, ReadPolicy(rows_per_task=100))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    partitions = reader.partitions(start, end)
    rows = rows_of(reader, partitions)
    reader.stop()
    assert len(partitions) == 5
    (lane,) = envelopes_by_lane(rows).values()
    assert lane == numbered(500)


def test_only_subjects_of_the_settings_are_read(any_nats: Nats) -> None:
    bus = NatsUnderTest(any_nats)
    for first in range(0, 30, 3):
        bus.write(numbered(1, first), f"{bus.stream}.trades")
        bus.write(numbered(1, first + 1), f"{bus.stream}.quotes")
        bus.write(numbered(1, first + 2), f"{bus.stream}.books")
    trades = NatsBus(bus.settings_for(subject=f"{bus.stream}.trades"))
    assert all_envelopes(MicroBatches(trades, POLICY).run()) == Counter(numbered(30)[::3])
    routing = {"quote": f"{bus.stream}.quotes"}
    both = NatsBus(bus.settings_for(subject=f"{bus.stream}.trades", subject_routing=routing))
    rows = MicroBatches(both, ReadPolicy(max_rows=7)).run()
    assert all_envelopes(rows) == Counter(numbered(30)) - Counter(numbered(30)[2::3])


def test_subjects_of_a_template_are_read(nats_bus: NatsUnderTest) -> None:
    for symbol in ("A", "B"):
        nats_bus.write([symbol.encode()], f"{nats_bus.stream}.bitmex.{symbol}")
    nats_bus.write([b"C"], f"{nats_bus.stream}.C")
    template = f"{nats_bus.stream}.{{{{exchange}}}}.{{{{symbol}}}}"
    bus = NatsBus(nats_bus.settings_for(subject=None, subject_template=template))
    assert all_envelopes(MicroBatches(bus, POLICY).run()) == Counter([b"A", b"B"])


def test_messages_deleted_one_by_one_are_no_loss(nats_bus: NatsUnderTest) -> None:
    nats_bus.write(numbered(20))
    for sequence in (5, 6, 20):
        nats_bus.do(lambda stream, s=sequence: stream.delete_msg(nats_bus.stream, s))
    rows = MicroBatches(nats_bus.bus, POLICY).run()
    assert len(rows) == 17


@pytest.mark.parametrize("count", [10, 30])
def test_stream_made_anew_is_noticed_however_long_it_is(
    nats_bus: NatsUnderTest, count: int
) -> None:
    nats_bus.write(numbered(20))
    before = MicroBatches(nats_bus.bus, POLICY)
    before.run()
    nats_bus.do(lambda stream: stream.delete_stream(nats_bus.stream))
    nats_bus.do(nats_bus._create)
    nats_bus.write(numbered(count, first=20))
    with pytest.raises(DataLossError, match="recreated"):
        MicroBatches(nats_bus.bus, POLICY, before.offset).run()
    after = MicroBatches(nats_bus.bus, ReadPolicy(fails_on_loss=False), before.offset).run()
    assert all_envelopes(after) == Counter(numbered(count, first=20))


def test_large_messages_come_whole(any_nats: Nats) -> None:
    bus = NatsUnderTest(any_nats)
    written: list[bytes | None] = [bytes([number]) * 1_000_000 for number in range(24)]
    bus.write(written)
    rows = MicroBatches(bus.bus, POLICY).run()
    (lane,) = envelopes_by_lane(rows).values()
    assert lane == written


def test_consumers_do_not_stay_behind(nats_bus: NatsUnderTest) -> None:
    nats_bus.write(numbered(50))
    assert len(MicroBatches(nats_bus.bus, ReadPolicy(max_rows=10)).run()) == 50
    info = nats_bus.do(lambda stream: stream.stream_info(nats_bus.stream))
    assert info.state.consumer_count == 0


def test_work_queue_is_refused(nats_bus: NatsUnderTest) -> None:
    name = unique_name("queue")
    nats_bus.do(lambda stream: stream.add_stream(name=name, subjects=[name], retention="workqueue"))
    with pytest.raises(BusError, match="retention"):
        MicroBatches(NatsBus(nats_bus.settings_for(subject=name)), POLICY).run()


def test_missing_stream_is_named(nats_bus: NatsUnderTest) -> None:
    with pytest.raises(BusError, match=r"no stream has the subjects nowhere\.at-all"):
        MicroBatches(NatsBus(nats_bus.settings_for(subject="nowhere.at-all")), POLICY).run()
    with pytest.raises(BusError, match="not found"):
        MicroBatches(NatsBus(nats_bus.settings_for(stream="nowhere")), POLICY).run()


def test_wrong_password_is_refused_at_once_and_not_shown(secret_nats: Nats) -> None:
    bus = NatsUnderTest(secret_nats)
    wrong = NatsBus(bus.settings_for(password=Secret("wrong-password")))
    with pytest.raises(BusError, match="Authorization Violation") as caught:
        MicroBatches(wrong, POLICY).run()
    assert "wrong-password" not in str(caught.value)


def read_with(server: Nats, **proof: Any) -> int:
    """Return how many events a reader with this login finds; the writer has the same."""
    subject = unique_name("stream")
    known = {"token": PASSWORD} if "token" in proof else {}
    if seed := proof.get("nkey_seed"):
        known = {"nkeys_seed": str(seed)}

    async def write() -> None:
        async with await connect_nats(server.address, **known) as client:
            stream = client.jetstream()
            await stream.add_stream(name=subject, subjects=[subject])
            for _ in range(10):
                await stream.publish(subject, b"event")

    asyncio.run(write())
    settings = NatsSettings(servers=(server.address,), subject=subject, **proof)
    return len(MicroBatches(NatsBus(settings), ReadPolicy(retry_seconds=0.1)).run())


def test_token_logs_in() -> None:
    with Nats(token=PASSWORD) as server:
        assert read_with(server, token=Secret(PASSWORD)) == 10


def test_nkey_logs_in(tmp_path: Path) -> None:
    key = make_nkey()
    seed = tmp_path / "seed"
    seed.write_text(f"{key.seed}\n")
    with Nats(nkeys=[key.public]) as server:
        assert read_with(server, nkey_seed=seed) == 10


def test_credentials_file_gives_its_token_and_signs_the_nonce(tmp_path: Path) -> None:
    key = make_nkey()
    creds = tmp_path / "user.creds"
    creds.write_text(
        "-----BEGIN NATS USER JWT-----\na.token.x\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{key.seed}\n------END USER NKEY SEED------\n"
    )
    said = login(NatsSettings(servers=("nats://x:1",), subject="x", creds=creds), "nonce")
    signature = base64.urlsafe_b64decode(said["sig"] + "==")
    assert said["jwt"] == "a.token.x"
    assert nkeys.from_seed(bytearray(key.seed.encode())).verify(b"nonce", signature)


def test_file_that_holds_no_credentials_is_named(tmp_path: Path) -> None:
    creds = tmp_path / "user.creds"
    creds.write_text("nothing")
    with pytest.raises(BusError, match="contains no JWT"):
        login(NatsSettings(servers=("nats://x:1",), subject="x", creds=creds), "nonce")


def test_encrypted_server_is_read_and_a_strange_one_is_not(certificates: Certificates) -> None:
    with Nats(certificates=certificates) as server:
        context = ssl.create_default_context(cafile=certificates.ca)

        async def write() -> None:
            async with await connect_nats(server.address, tls=context) as client:
                await client.jetstream().add_stream(name="bronze", subjects=["bronze"])
                await client.jetstream().publish("bronze", b"event")

        asyncio.run(write())
        settings = NatsSettings(servers=(server.address,), subject="bronze", tls_ca=certificates.ca)
        assert len(MicroBatches(NatsBus(settings), POLICY).run()) == 1
        strange = dataclasses.replace(settings, tls_ca=None)
        with pytest.raises(BusError, match="TLS verification of"):
            MicroBatches(NatsBus(strange), POLICY).run()


def test_other_server_of_the_list_is_read_when_one_is_down(
    nats_bus: NatsUnderTest, closed_port: int
) -> None:
    nats_bus.write(numbered(5))
    servers = (f"nats://127.0.0.1:{closed_port}", nats_bus.server.address)
    bus = NatsBus(nats_bus.settings_for(servers=servers))
    assert len(MicroBatches(bus, POLICY).run()) == 5


def test_commands_are_cut_at_any_place() -> None:
    block = (
        b"INFO {}\r\nMSG a.b 1 $JS.ACK 5\r\nhello\r\n"
        b"HMSG a.c 1 $JS.ACK 12 14\r\nNATS/1.0\r\n\r\nhi\r\nMSG d 1 0\r\n\r\nPING\r\n"
    )
    whole = parse(block)
    assert [message.data for message in whole.messages] == [b"hello", b"hi", b""]
    assert (whole.others, whole.used) == ([b"INFO {}", b"PING"], len(block))
    for place in range(len(block)):
        first = parse(block[:place])
        second = parse(block[first.used :])
        assert first.messages + second.messages == whole.messages
        assert first.others + second.others == whole.others
