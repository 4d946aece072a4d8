"""Golden pairs: one normalized record as JSON, and the envelope it must become.

`python -m tests.proto.golden_files` writes the files again from their records; look at the
difference before committing it, because stored envelopes do not change with it.
"""

import json
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from tardis_machine.bronze.encode import Encoder
from tardis_machine.bronze.envelope import Envelope, parse_event
from tardis_machine.bronze.series import Origin
from tardis_machine.model.ndjson import NormalizedRecord, decode_lines

FOLDER = Path(__file__).parent / "golden"
INGEST_US = 1_709_251_200_250_000
META = {"request_id": "r-1", "transport": "http"}


def golden_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return content


def record_of(content: dict[str, Any]) -> NormalizedRecord:
    (record,) = decode_lines(json.dumps(content["record"]))
    return record


def encode(record: NormalizedRecord, origin: Origin = Origin.REPLAY) -> Envelope:
    (envelope,) = Encoder("producer-1", origin, META).encode([record], INGEST_US)
    return envelope


def readable(data: bytes) -> dict[str, Any]:
    return MessageToDict(parse_event(data), preserving_proto_field_name=True)


def write(name: str, record: dict[str, Any]) -> None:
    data = encode(record_of({"record": record})).data
    content = {"record": record, "envelope": readable(data), "bytes": data.hex()}
    (FOLDER / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    for golden_name in golden_names():
        write(golden_name, load(golden_name)["record"])
