"""The NATS servers of the tests, seen by nats-py."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats.errors
import pytest

from tests.servers import places
from tests.servers.nats import Nats, NatsCluster, make_nkey
from tests.servers.readers import connect_nats, read_nats
from tests.servers.tls import Certificates

pytestmark = pytest.mark.broker

ELECTION_SECONDS = 300


async def publish(address: str, subject: str, *values: str, **options: Any) -> None:
    async with await connect_nats(address, **options) as client:
        for value in values:
            await client.jetstream().publish(subject, value.encode(), headers={"n": value})


async def create_stream(address: str, name: str, replicas: int = 1, **options: Any) -> None:
    async with await connect_nats(address, **options) as client:
        await client.jetstream(timeout=ELECTION_SECONDS).add_stream(
            name=name, subjects=[f"{name}.>"], num_replicas=replicas
        )


async def test_published_messages_are_read_back_in_order(
    nats_server: Nats, nats_stream: str
) -> None:
    values = [str(n) for n in range(100)]
    await publish(nats_server.address, f"{nats_stream}.trade", *values)
    records = await read_nats(nats_server.address, nats_stream)
    assert [record.value.decode() for record in records] == values
    assert records[7].key == f"{nats_stream}.trade"
    assert records[7].headers["n"] == "7"


async def test_killed_server_comes_back_with_its_messages(
    nats_server: Nats, nats_stream: str
) -> None:
    await publish(nats_server.address, nats_stream, "before")
    nats_server.kill()
    with pytest.raises(nats.errors.NoServersError):
        await publish(nats_server.address, nats_stream, "meanwhile")
    nats_server.start()
    await publish(nats_server.address, nats_stream, "after")
    records = await read_nats(nats_server.address, nats_stream)
    assert [record.value for record in records] == [b"before", b"after"]


async def test_paused_server_answers_after_it_is_resumed(
    nats_server: Nats, nats_stream: str
) -> None:
    async with await connect_nats(nats_server.address) as client:
        nats_server.pause()
        late = asyncio.create_task(client.jetstream().publish(nats_stream, b"late", timeout=240))
        done, _ = await asyncio.wait([late], timeout=0.1)
        assert not done
        nats_server.resume()
        await late
    assert len(await read_nats(nats_server.address, nats_stream)) == 1


@pytest.mark.parametrize("binary", places.nats_servers(), ids=lambda path: path.parent.name)
async def test_every_installed_server_keeps_a_stream(binary: Path) -> None:
    with Nats(binary=binary) as server:
        await create_stream(server.address, "s")
        await publish(server.address, "s.x", "one")
        assert len(await read_nats(server.address, "s")) == 1


@pytest.mark.parametrize("known", [{"users": {"tester": "secret"}}, {"token": "secret"}])
async def test_client_without_credentials_is_refused(known: dict[str, Any]) -> None:
    with Nats(**known) as server:
        await create_stream(server.address, "s", **server.login)
        await publish(server.address, "s.x", "in", **server.login)
        with pytest.raises((nats.errors.Error, OSError)):
            await publish(server.address, "s.x", "out")
        assert len(await read_nats(server.address, "s", **server.login)) == 1


async def test_nkey_opens_the_server_to_its_owner_only() -> None:
    owner, stranger = make_nkey(), make_nkey()
    with Nats(nkeys=[owner.public]) as server:
        await create_stream(server.address, "s", nkeys_seed_str=owner.seed)
        with pytest.raises((nats.errors.Error, OSError)):
            await create_stream(server.address, "t", nkeys_seed_str=stranger.seed)


async def test_tls_server_takes_clients_that_trust_our_authority(
    certificates: Certificates,
) -> None:
    trusting = ssl.create_default_context(cafile=str(certificates.ca))
    with Nats(certificates=certificates) as server:
        await create_stream(server.address, "s", tls=trusting)
        await publish(server.address, "s.x", "sealed", tls=trusting)
        assert len(await read_nats(server.address, "s", tls=trusting)) == 1


async def test_replicated_stream_takes_messages_after_its_leader_stepped_down(
    nats_cluster: NatsCluster,
) -> None:
    await create_stream(nats_cluster.address, "s", replicas=3)
    async with await connect_nats(nats_cluster.address) as client:
        context = client.jetstream()
        leader = first = (await context.stream_info("s")).cluster.leader
        await client.request("$JS.API.STREAM.LEADER.STEPDOWN.s", timeout=10)
        async with asyncio.timeout(ELECTION_SECONDS):
            while leader in {None, first}:
                # Nobody answers while the leader is being chosen.
                with suppress(nats.errors.Error):
                    leader = (await context.stream_info("s")).cluster.leader
    assert leader in {node.node_name for node in nats_cluster.nodes}
    async with asyncio.timeout(ELECTION_SECONDS):
        # The other nodes learn later where the subject is taken. Each attempt is a connection.
        while not await is_taken(nats_cluster.address, "s.x", "after"):
            pass
    assert await read_nats(nats_cluster.address, "s")


async def is_taken(address: str, subject: str, text: str) -> bool:
    """Say whether a message was acknowledged."""
    try:
        await publish(address, subject, text)
    except nats.errors.Error:
        return False
    return True
