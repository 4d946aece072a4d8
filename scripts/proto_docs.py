"""Field tables of the schemas as Markdown, with the comments of the schemas as their meaning."""

from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

START = "<!-- The tables below are made by `make proto` from the schemas. -->"
# Numbers of the lists that a comment's path goes through, from descriptor.proto.
_MESSAGES, _ENUMS, _FIELDS, _VALUES = 4, 5, 2, 2


class SchemaFile:
    """One schema file with its comments."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments = {
            tuple(location.path): " ".join(location.leading_comments.split())
            for location in file.source_code_info.location
        }

    def tables(self) -> Iterator[str]:
        """Yield one section per message and enum, in the order of the file."""
        for number, message in enumerate(self._file.message_type):
            yield self._message(message, (_MESSAGES, number))
        for number, enum in enumerate(self._file.enum_type):
            yield self._enum(enum, (_ENUMS, number))

    def _message(self, message: DescriptorProto, path: tuple[int, ...]) -> str:
        rows = [
            f"| {field.number} | `{field.name}` | {type_text(message, field)} "
            f"| {self._comments.get((*path, _FIELDS, position), '')} |"
            for position, field in enumerate(message.field)
        ]
        head = ["| no. | field | type | meaning |", "|---|---|---|---|"]
        return self._section(message.name, path, head + rows)

    def _enum(self, enum: EnumDescriptorProto, path: tuple[int, ...]) -> str:
        rows = [
            f"| {value.number} | `{value.name}` "
            f"| {self._comments.get((*path, _VALUES, position), '')} |"
            for position, value in enumerate(enum.value)
        ]
        return self._section(enum.name, path, ["| no. | value | meaning |", "|---|---|---|", *rows])

    def _section(self, name: str, path: tuple[int, ...], table: list[str]) -> str:
        return "\n".join((f"### {name}", "", self._comments.get(path, ""), "", *table, ""))


def type_text(message: DescriptorProto, field: FieldDescriptorProto) -> str:
    """Write the type of a field as the schema does."""
    name = field.type_name.rpartition(".")[2]
    if name in {nested.name for nested in message.nested_type if nested.options.map_entry}:
        return "map<string, string>"
    scalar = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    text = name or scalar
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {text}"
    if field.proto3_optional:
        return f"optional {text}"
    if field.HasField("oneof_index"):
        return f"{text} (one of `{message.oneof_decl[field.oneof_index].name}`)"
    return text


def schema_tables(image: Path, file_name: str) -> str:
    """Return the tables of one file of a Buf image that has source information."""
    files = FileDescriptorSet.FromString(image.read_bytes()).file
    file = next(file for file in files if file.name == file_name)
    return "\n".join(SchemaFile(file).tables())


def with_tables(document: str, tables: str) -> str:
    """Return a document whose part after the marker is replaced."""
    written, marker, _ = document.partition(START)
    if not marker:
        raise ValueError(f"no line {START!r} in the document")
    return f"{written}{START}\n\n{tables}"
