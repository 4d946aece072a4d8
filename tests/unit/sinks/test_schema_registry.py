"""Registration of the schema, and the frame of records."""

import base64
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tardis_machine.model.errors import SinkError, SinkUnavailableError
from tardis_machine.model.settings import Secret
from tardis_machine.sinks.schema_registry import (
    PREFIX_BYTES,
    SchemaRegistry,
    frame_prefix,
    schema_text,
)
from tests.unit.sinks.registry_stand_in import RegistryStandIn


@pytest.fixture
def server() -> Iterator[RegistryStandIn]:
    with RegistryStandIn() as server:
        yield server


def test_schema_is_the_file_whose_first_message_is_the_envelope() -> None:
    file = FileDescriptorProto.FromString(base64.b64decode(schema_text()))
    assert file.message_type[0].name == "NormalizedEvent"
    assert file.package == "lakehouse.bronze.v1"
    # Everything else it needs is a well-known type, which registries bring.
    assert all(name.startswith("google/protobuf/") for name in file.dependency)


def test_prefix_is_magic_id_and_first_message() -> None:
    assert frame_prefix(0x01020304) == b"\x00\x01\x02\x03\x04\x00"
    assert len(frame_prefix(7)) == PREFIX_BYTES


def test_each_topic_is_registered_once_under_its_own_subject(server: RegistryStandIn) -> None:
    registry = SchemaRegistry(server.url)
    assert registry.prefix("a/b") == registry.prefix("c") == registry.prefix("c")
    assert server.requests == [
        "POST /subjects/a%2Fb-value/versions",
        "POST /subjects/c-value/versions",
    ]
    (number,) = server.schemas
    assert registry.prefix("c") == frame_prefix(number)
    assert server.schemas[number] == {"schemaType": "PROTOBUF", "schema": schema_text()}


def test_given_subject_serves_all_topics(server: RegistryStandIn) -> None:
    registry = SchemaRegistry(f"{server.url}/", subject="bronze")
    registry.prefix("a")
    registry.prefix("b")
    assert list(server.subjects) == ["bronze"]
    assert len(server.requests) == 1


def test_registration_by_others_is_looked_up_and_its_absence_refused(
    server: RegistryStandIn,
) -> None:
    reader = SchemaRegistry(server.url, auto_register=False)
    with pytest.raises(SinkError, match="404 Schema not found") as caught:
        reader.prefix("a")
    assert not isinstance(caught.value, SinkUnavailableError)
    prefix = SchemaRegistry(server.url).prefix("a")
    assert SchemaRegistry(server.url, auto_register=False).prefix("a") == prefix


def test_login_is_sent_and_a_wrong_one_refused_without_showing_it() -> None:
    with RegistryStandIn(login=("user", "s3cret-word")) as server:
        good = SchemaRegistry(server.url, username="user", password=Secret("s3cret-word"))
        assert good.prefix("a")
        bad = SchemaRegistry(server.url, username="user", password=Secret("wrong-word"))
        with pytest.raises(SinkError, match="401") as caught:
            bad.prefix("a")
        assert not isinstance(caught.value, SinkUnavailableError)
        assert "wrong-word" not in str(caught.value)


def test_unreachable_registry_is_unavailable() -> None:
    with RegistryStandIn() as server:
        url = server.url
    with pytest.raises(SinkUnavailableError, match="is unreachable"):
        SchemaRegistry(url).prefix("a")


def test_failure_is_repeated_without_asking_until_the_pause_is_over(
    server: RegistryStandIn,
) -> None:
    now = 1000.0
    registry = SchemaRegistry(server.url, monotonic=lambda: now)
    server.refusals.append((503, {"message": "starting"}))
    with pytest.raises(SinkUnavailableError, match="503 starting"):
        registry.prefix("a")
    with pytest.raises(SinkUnavailableError, match="503 starting"):
        registry.prefix("b")
    assert len(server.requests) == 1
    now += 2
    assert registry.prefix("b")


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_answers_that_may_change_are_retryable(server: RegistryStandIn, status: int) -> None:
    server.refusals.append((status, {"message": "later"}))
    with pytest.raises(SinkUnavailableError):
        SchemaRegistry(server.url).prefix("a")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_answers_that_stay_are_final(server: RegistryStandIn, status: int) -> None:
    server.refusals.append((status, {"message": "incompatible"}))
    with pytest.raises(SinkError, match="incompatible") as caught:
        SchemaRegistry(server.url).prefix("a")
    assert not isinstance(caught.value, SinkUnavailableError)


def test_answer_without_an_id_is_an_error(server: RegistryStandIn) -> None:
    server.refusals.append((200, {"hello": "world"}))
    with pytest.raises(SinkError, match="no schema id"):
        SchemaRegistry(server.url).prefix("a")
