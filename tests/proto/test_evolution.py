"""Old readers and newer producers, and the other way round."""

from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

from tardis_machine.bronze.decode import Decoder, UnknownPayloadError
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_header_pb2 as header_pb
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.model.errors import EnvelopeError
from tests.proto.golden_files import golden_names, load, record_of
from tests.proto.tree import ROOT

BASELINE = ROOT / "schemas" / "baseline.binpb"
ENVELOPE_FILE = "lakehouse/bronze/v1/normalized_event.proto"


def message_class(file: FileDescriptorProto) -> Any:
    """Return the envelope class of a schema that is not the present one."""
    pool = descriptor_pool.DescriptorPool()
    timestamps = FileDescriptorProto()
    TIMESTAMP_FILE.CopyToProto(timestamps)
    pool.Add(timestamps)
    pool.Add(file)
    name = "lakehouse.bronze.v1.NormalizedEvent"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def add_text_field(message: DescriptorProto, number: int, oneof: int | None = None) -> None:
    field = message.field.add(
        name=f"text_{number}",
        number=number,
        type=FieldDescriptorProto.TYPE_STRING,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    if oneof is not None:
        field.oneof_index = oneof


@pytest.fixture(scope="module")
def newer_event() -> Any:
    """The present schema with a header field, a trade field, a side and a payload more."""
    file = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    messages = {message.name: message for message in file.message_type}
    add_text_field(messages["NormalizedEvent"], 13)
    add_text_field(messages["NormalizedEvent"], 32, oneof=0)
    add_text_field(messages["Trade"], 6)
    sides = next(enum for enum in file.enum_type if enum.name == "Side")
    sides.value.add(name="SIDE_AUCTION", number=4)
    return message_class(file)


@pytest.fixture(scope="module")
def baseline_event() -> Any:
    image = FileDescriptorSet.FromString(BASELINE.read_bytes())
    return message_class(next(file for file in image.file if file.name == ENVELOPE_FILE))


def test_newer_fields_are_ignored_by_an_old_reader(newer_event: Any) -> None:
    golden = load("trade")
    event = newer_event.FromString(bytes.fromhex(golden["bytes"]))
    event.text_13 = "new in the header"
    event.trade.text_6 = "new in the payload"
    assert Decoder().decode([event.SerializeToString()]) == [record_of(golden)]


def test_newer_payload_is_named_by_an_old_reader(newer_event: Any) -> None:
    event = newer_event(exchange="bitmex", text_32="a payload of tomorrow")
    with pytest.raises(UnknownPayloadError, match=r"field 32 .* producer is newer") as caught:
        Decoder().decode([event.SerializeToString()])
    assert caught.value.number == 32


def test_newer_enum_value_is_an_envelope_error(newer_event: Any) -> None:
    event = newer_event.FromString(bytes.fromhex(load("trade")["bytes"]))
    event.trade.side = 4
    with pytest.raises(EnvelopeError, match="KeyError: 4"):
        Decoder().decode([event.SerializeToString()])


@pytest.mark.parametrize("name", golden_names())
def test_present_reader_reads_what_the_baseline_wrote(name: str, baseline_event: Any) -> None:
    golden = load(name)
    written = baseline_event.FromString(bytes.fromhex(golden["bytes"])).SerializeToString()
    assert Decoder().decode([written]) == [record_of(golden)]


@pytest.mark.parametrize("name", golden_names())
def test_header_reads_the_same_bytes_in_two_stages(name: str) -> None:
    data = bytes.fromhex(load(name)["bytes"])
    event = pb.NormalizedEvent.FromString(data)
    header = header_pb.NormalizedEventHeader.FromString(data)
    payload = event.WhichOneof("payload")
    assert header.WhichOneof("payload") == payload
    assert type(getattr(event, payload)).FromString(getattr(header, payload)) == getattr(
        event, payload
    )
    for field in ("source", "exchange", "symbol", "local_ts", "ingest_ts", "origin", "meta"):
        assert getattr(header, field) == getattr(event, field)
