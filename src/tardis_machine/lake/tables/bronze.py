"""Bronze: every event as it came from the bus."""

from tardis_machine.lake.tables.columns import Column, ColumnType, Table, required, text, time

UNREADABLE = "unreadable"
"""Payload case of a record whose bytes are no envelope."""
UNKNOWN = "unknown"
"""Payload case of an envelope without a payload that this version knows."""

IDENTITY = ("payload_case", "exchange", "symbol", "name", "local_ts", "ordinal", "capture")
"""Columns that are equal for every copy of an event, and only for those."""

BUS_COLUMNS = (
    *required(
        text("bus", "Bus it was read from: files, kafka, redis and so on."),
        text("stream", "Topic, stream, subject or hub."),
        text("partition", "Part of the stream that has an order of its own."),
        text("position", "Place in the partition; unique there and never reused."),
    ),
    time("bus_ts", "Time at which the bus took the event, where it keeps one."),
)

HEADER_COLUMNS = (
    text("exchange", "Exchange id, for example binance-futures."),
    text("symbol", "Instrument id as the exchange publishes it; empty for control events."),
    text("name", "Requested data type of computed records; empty for others."),
    time("event_ts", "Time of the exchange; absent for control events."),
    time("local_ts", "Arrival time at the recorder or, live, at the producer."),
    Column("ordinal", ColumnType.INT, "Position among events that share the rest of the identity."),
    text("capture", "`live:<producer>` for live events, `history` for replays and archives."),
    text("producer", "Id of the process that encoded the event."),
    text("origin", "How it came to the producer: realtime, replay or archive."),
    time("ingest_ts", "Time at which the producer encoded the event."),
    Column("time_digits", ColumnType.INT, "Bits that say which time texts had six digits."),
)

EVENTS = Table(
    name="bronze.events",
    meaning="Every event as it came from the bus, once per delivery, readable or not.",
    columns=(
        *required(
            Column(
                "date", ColumnType.DATE, "UTC day of local_ts; of bus_ts or 1970 without local_ts."
            ),
            text("payload_case", f"Kind of event, `{UNKNOWN}` or `{UNREADABLE}`."),
        ),
        *HEADER_COLUMNS,
        *BUS_COLUMNS,
        Column("envelope", ColumnType.BINARY, "The bytes of lakehouse.bronze.v1.NormalizedEvent."),
    ),
    key=("bus", "stream", "partition", "position"),
    partition_by=("date", "payload_case"),
    cluster_by=("exchange", "symbol", "local_ts"),
)
