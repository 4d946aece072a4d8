"""Decode columns of envelopes, each stage only the fields it needs.

Protobuf skips unknown fields. A message type with a subset of the fields of `NormalizedEvent`
(a view) therefore decodes the same bytes, and faster. The views are derived from the descriptor of
the envelope, so there is no second definition to keep in step.
"""

from functools import cache
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from ptars import HandlerPool, PtarsConfig

from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb
from tardis_machine.lake.arrow import Values, arrow, kernels

EVENT: Any = pb.NormalizedEvent.DESCRIPTOR
CASES: tuple[Any, ...] = tuple(EVENT.oneofs_by_name["payload"].fields)
_SKIPPED_IN_HEADER = {"meta", *(case.name for case in CASES)}
# Payload fields that identity and event time are made of.
_IN_HEADER = ("timestamp", "name")
_PACKAGE = "tardis_machine.views"
_FILE = "tardis_machine/views.proto"


class View:
    """Decodes a column of envelopes into the columns of one view."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def read(self, envelopes: Values) -> tuple[pa.RecordBatch, Values]:
        """Return one row per envelope, and which rows cannot be decoded: their columns are null."""
        is_bad = kernels.equal(kernels.binary_length(envelopes), 0).fill_null(True)
        try:
            return self._handler.array_to_record_batch(envelopes), is_bad
        except ValueError:
            return self._read_each(envelopes, is_bad)

    def _read_each(self, envelopes: Values, is_bad: Values) -> tuple[pa.RecordBatch, Values]:
        """Decode row by row with the protobuf library: one bad row fails the whole column."""
        simple = arrow.array(map(rewrite, envelopes.to_pylist()), pa.binary())
        batch = self._handler.array_to_record_batch(simple)
        return batch, kernels.or_(is_bad, simple.is_null())


def rewrite(envelope: bytes | None) -> bytes | None:
    """Return an envelope re-encoded by the protobuf library, or None when it cannot be decoded.

    Fields of a newer schema are dropped, and of two payloads the last one is kept.
    """
    try:
        event = pb.NormalizedEvent.FromString(envelope or b"")
    except DecodeError:
        return None
    event.DiscardUnknownFields()
    return event.SerializeToString()


@cache
def header_view() -> View:
    """Return the view of all header fields, and of the time and name of every payload."""
    return View(_handlers().get_for_message(_message("Header")))


@cache
def payload_view(case: str) -> View:
    """Return the view of one payload case without the header."""
    return View(_handlers().get_for_message(_message(f"Only_{case}")))


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    for file in (timestamp_pb2.DESCRIPTOR, pb.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
    pool.AddSerializedFile(_view_file().SerializeToString())
    return pool


@cache
def _handlers() -> HandlerPool:
    file = _pool().FindFileByName(_FILE)
    return HandlerPool([file], config=PtarsConfig(timestamp_unit="us"))


def _message(name: str) -> Any:
    return _pool().FindMessageTypeByName(f"{_PACKAGE}.{name}")


def _view_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    file.dependency.extend([timestamp_pb2.DESCRIPTOR.name, pb.DESCRIPTOR.name])
    fields = {field.name: field for field in _fields_of(EVENT)}
    header = file.message_type.add(name="Header")
    header.field.extend(field for name, field in fields.items() if name not in _SKIPPED_IN_HEADER)
    for case in CASES:
        peek = file.message_type.add(name=f"Peek_{case.name}")
        peek.field.extend(f for f in _fields_of(case.message_type) if f.name in _IN_HEADER)
        only = file.message_type.add(name=f"Only_{case.name}")
        only.field.append(fields[case.name])
        header.field.append(fields[case.name])
        header.field[-1].type_name = f".{_PACKAGE}.{peek.name}"
    return file


def _fields_of(message: Any) -> list[descriptor_pb2.FieldDescriptorProto]:
    """Return copies of the fields of a message, outside of any oneof."""
    copy = descriptor_pb2.DescriptorProto()
    message.CopyToProto(copy)
    for field in copy.field:
        field.ClearField("oneof_index")
        field.ClearField("proto3_optional")
    return list(copy.field)
