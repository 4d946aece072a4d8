"""Stored envelopes stay readable, and the same record gives the same bytes for ever."""

import pytest

from tardis_machine.bronze.cases import PayloadCase, case_of
from tardis_machine.bronze.decode import Decoder
from tests.proto.golden_files import encode, golden_names, load, readable, record_of


def test_golden_files_cover_every_payload_case() -> None:
    assert {case_of(record_of(load(name))) for name in golden_names()} == set(PayloadCase)


@pytest.mark.parametrize("name", golden_names())
def test_record_becomes_the_golden_envelope(name: str) -> None:
    golden = load(name)
    assert readable(encode(record_of(golden)).data) == golden["envelope"]


@pytest.mark.parametrize("name", golden_names())
def test_record_becomes_the_golden_bytes(name: str) -> None:
    golden = load(name)
    assert encode(record_of(golden)).data.hex() == golden["bytes"]


@pytest.mark.parametrize("name", golden_names())
def test_golden_bytes_become_the_record(name: str) -> None:
    golden = load(name)
    assert Decoder().decode([bytes.fromhex(golden["bytes"])]) == [record_of(golden)]
