"""Bronze: every event as read from the bus."""

from tardis_machine.lake.tables.columns import Column, ColumnType, Table, required, text, time

UNREADABLE = "unreadable"
"""Payload case of a record that cannot be decoded as an envelope."""
UNKNOWN = "unknown"
"""Payload case of an envelope whose payload this version does not know."""

IDENTITY = ("payload_case", "exchange", "symbol", "name", "local_ts", "ordinal", "capture")
"""Columns that identify an event: equal for every copy of it, and only for those."""

BUS_COLUMNS = (
    *required(
        text("bus", "Bus that the event was read from: files, kafka, redis and so on."),
        text("stream", "Topic, stream, subject or hub."),
        text("partition", "Partition or shard of the stream; events are ordered within it."),
        text("position", "Offset or id in the partition; unique in one stream of one bus."),
    ),
    time("bus_ts", "Time at which the bus accepted the event; null if the bus does not record it."),
)

HEADER_COLUMNS = (
    text("exchange", "Exchange id, for example binance-futures."),
    text("symbol", "Instrument id as the exchange publishes it; empty for control events."),
    text("name", "Requested data type of computed records, for example quote_1s; else empty."),
    time("event_ts", "Timestamp of the exchange; null for control events."),
    time("local_ts", "Arrival time at the recorder (history) or at the producer (live)."),
    Column(
        "ordinal", ColumnType.INT, "Sequence number among events with otherwise equal identity."
    ),
    text(
        "capture",
        "`history` for replays and archives, `recorded:<recorder>` for replays of own recordings, "
        "`partial:<start>` where they may lack what came before, `live:<producer>` for live "
        "events.",
    ),
    text("producer", "Id of the process that encoded the event."),
    text("origin", "Source of the event: realtime, replay or archive."),
    time("ingest_ts", "Time at which the producer encoded the event."),
    Column("time_digits", ColumnType.INT, "Bit mask of timestamps that had microseconds."),
)

EVENTS = Table(
    name="bronze.events",
    meaning="Every event as read from the bus, once per delivery, decodable or not.",
    columns=(
        *required(
            Column(
                "date", ColumnType.DATE, "UTC day of local_ts, else of bus_ts, else 1970-01-01."
            ),
            text("payload_case", f"Payload case of the event, `{UNKNOWN}` or `{UNREADABLE}`."),
        ),
        *HEADER_COLUMNS,
        *BUS_COLUMNS,
        Column("envelope", ColumnType.BINARY, "Serialized lakehouse.bronze.v1.NormalizedEvent."),
    ),
    key=("bus", "stream", "partition", "position"),
    partition_by=("date", "payload_case"),
    cluster_by=("exchange", "symbol", "local_ts"),
    # The lake skips files of Bronze by no other column, and statistics cost as much as writing.
    stats=("local_ts",),
)
