"""Unpacks the records of the Kinesis Producer Library as its own consumers do."""

from hashlib import md5
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

MAGIC = b"\xf3\x89\x9a\xc2"
FIELD = descriptor_pb2.FieldDescriptorProto


def _message_class() -> Any:
    """Return the class of the published `AggregatedRecord` message."""
    file = descriptor_pb2.FileDescriptorProto(name="packed.proto", package="packed")
    record = file.message_type.add(name="Record")
    record.field.add(name="partition_key_index", number=1, type=FIELD.TYPE_UINT64, label=2)
    record.field.add(name="explicit_hash_key_index", number=2, type=FIELD.TYPE_UINT64, label=1)
    record.field.add(name="data", number=3, type=FIELD.TYPE_BYTES, label=2)
    packed = file.message_type.add(name="AggregatedRecord")
    packed.field.add(name="partition_key_table", number=1, type=FIELD.TYPE_STRING, label=3)
    packed.field.add(name="explicit_hash_key_table", number=2, type=FIELD.TYPE_STRING, label=3)
    packed.field.add(
        name="records", number=3, type=FIELD.TYPE_MESSAGE, label=3, type_name=".packed.Record"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    name = "packed.AggregatedRecord"
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


AggregatedRecord = _message_class()


def unpack(record: bytes) -> list[bytes]:
    """Return the data of the events in a record, packed or not."""
    if not record.startswith(MAGIC):
        return [record]
    body, digest = record[4:-16], record[-16:]
    assert md5(body, usedforsecurity=False).digest() == digest
    message = AggregatedRecord.FromString(body)
    assert len(message.partition_key_table) == 1
    return [one.data for one in message.records]
