"""The schema as stored data depends on it: numbers and types never change."""

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tardis_machine.bronze.cases import PayloadCase
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_header_pb2 as header_pb
from tardis_machine.generated.lakehouse.bronze.v1 import normalized_event_pb2 as pb

ENVELOPE = {
    "source": 1,
    "exchange": 2,
    "symbol": 3,
    "local_ts": 4,
    "ingest_ts": 5,
    "origin": 6,
    "ordinal": 7,
    "time_digits": 8,
    "meta": 9,
    "state_from": 10,
    "mapper_version": 11,
    "recorder": 12,
    "trade": 20,
    "book_change": 21,
    "book_snapshot": 22,
    "grouped_book_snapshot": 23,
    "quote": 24,
    "book_ticker": 25,
    "derivative_ticker": 26,
    "liquidation": 27,
    "option_summary": 28,
    "trade_bar": 29,
    "error": 30,
    "disconnect": 31,
}

PAYLOADS = {
    "Trade": "timestamp id price amount side",
    "BookChange": "timestamp is_snapshot bid_prices bid_amounts ask_prices ask_amounts",
    "BookSnapshot": (
        "timestamp name depth interval grouping bid_prices bid_amounts ask_prices ask_amounts "
        "bid_entries ask_entries"
    ),
    "BookTicker": "timestamp ask_amount ask_price bid_price bid_amount",
    "DerivativeTicker": (
        "timestamp last_price open_interest funding_rate funding_timestamp "
        "predicted_funding_rate index_price mark_price"
    ),
    "Liquidation": "timestamp id price amount side",
    "OptionSummary": (
        "timestamp option_type strike_price expiration_date best_bid_price best_bid_amount "
        "best_bid_iv best_ask_price best_ask_amount best_ask_iv last_price open_interest "
        "mark_price mark_iv delta gamma vega theta rho underlying_price underlying_index"
    ),
    "TradeBar": (
        "timestamp name interval kind open high low close volume buy_volume sell_volume trades "
        "vwap open_timestamp close_timestamp"
    ),
    "ControlError": "details subsequent_errors_count",
    "ControlDisconnect": "symbols",
    "SymbolList": "values",
}
"""Fields in the order of their numbers, which start at 1 and have no holes."""

ENUMS = {
    "Origin": ["ORIGIN_UNSPECIFIED", "ORIGIN_REALTIME", "ORIGIN_REPLAY", "ORIGIN_ARCHIVE"],
    "Side": ["SIDE_UNSPECIFIED", "SIDE_BUY", "SIDE_SELL", "SIDE_UNKNOWN"],
    "OptionType": ["OPTION_TYPE_UNSPECIFIED", "OPTION_TYPE_CALL", "OPTION_TYPE_PUT"],
    "BarKind": ["BAR_KIND_UNSPECIFIED", "BAR_KIND_TIME", "BAR_KIND_VOLUME", "BAR_KIND_TICK"],
}


def numbers(message: Descriptor) -> dict[str, int]:
    return {field.name: field.number for field in message.fields}


def test_envelope_field_numbers_are_pinned() -> None:
    assert numbers(pb.NormalizedEvent.DESCRIPTOR) == ENVELOPE


def test_payload_field_numbers_are_pinned() -> None:
    messages = pb.DESCRIPTOR.message_types_by_name
    found = {name: numbers(messages[name]) for name in messages if name != "NormalizedEvent"}
    assert found == {
        name: {field: number for number, field in enumerate(fields.split(), start=1)}
        for name, fields in PAYLOADS.items()
    }


def test_enum_numbers_are_pinned() -> None:
    enums = pb.DESCRIPTOR.enum_types_by_name
    assert {name: list(enums[name].values_by_name) for name in enums} == ENUMS
    for enum in enums.values():
        assert [value.number for value in enum.values] == list(range(len(enum.values)))


def test_envelope_is_the_first_message_of_its_file() -> None:
    file = FileDescriptorProto()
    pb.DESCRIPTOR.CopyToProto(file)
    assert file.message_type[0].name == "NormalizedEvent"


def test_envelope_file_imports_only_well_known_types() -> None:
    imported = [dependency.name for dependency in pb.DESCRIPTOR.dependencies]
    assert imported == ["google/protobuf/timestamp.proto"]


def test_payload_cases_are_the_members_of_the_payload() -> None:
    members = pb.NormalizedEvent.DESCRIPTOR.oneofs_by_name["payload"].fields
    assert [member.name for member in members] == [case.value for case in PayloadCase]


def test_levels_are_packed_columns() -> None:
    for message in (pb.BookChange, pb.BookSnapshot):
        for name in ("bid_prices", "bid_amounts", "ask_prices", "ask_amounts"):
            field = message.DESCRIPTOR.fields_by_name[name]
            assert field.type == FieldDescriptor.TYPE_DOUBLE
            assert field.is_repeated
            assert field.is_packed


def test_header_has_the_fields_of_the_envelope() -> None:
    header = header_pb.NormalizedEventHeader.DESCRIPTOR
    assert numbers(header) == ENVELOPE
    members = header.oneofs_by_name["payload"].fields
    assert [member.name for member in members] == [case.value for case in PayloadCase]


def test_header_types_read_the_same_wire_form() -> None:
    header = header_pb.NormalizedEventHeader.DESCRIPTOR.fields_by_name
    for field in pb.NormalizedEvent.DESCRIPTOR.fields:
        twin = header[field.name]
        assert twin.is_repeated == field.is_repeated
        if field.name in {case.value for case in PayloadCase}:
            assert twin.type == FieldDescriptor.TYPE_BYTES
        elif field.type == FieldDescriptor.TYPE_ENUM:
            assert twin.type == FieldDescriptor.TYPE_INT32
        else:
            assert twin.type == field.type
