"""The bytes of a log."""

from tardis_machine.buses.files.log import (
    pack_block,
    pack_headers,
    pack_record,
    parse_records,
    unpack_headers,
)


def test_record_has_the_documented_bytes() -> None:
    packed = pack_record(b"t", b"ke", pack_headers({"n": "val"}), b"env!")
    assert packed == (
        b"\x01\x00"  # destination
        b"\x02\x00"  # key
        b"\x0a\x00\x00\x00"  # headers
        b"\x04\x00\x00\x00"  # envelope
        b"tke"
        b"\x01\x00\x03\x00\x00\x00nval"
        b"env!"
    )
    assert (
        pack_block(b"abc")
        == b"\x01\x00\x03\x00\x00\x00" + (0x352441C2).to_bytes(4, "little") + b"abc"
    )


def test_records_are_read_as_they_were_packed() -> None:
    first = pack_record("täglich".encode(), b"", b"", b"")
    second = pack_record(b"b", b"k", pack_headers({"a": "1", "ü": "x\ny"}), b"\x00\xff")
    one, two = parse_records(first + second)
    assert (one.destination, one.key, one.headers, one.envelope) == ("täglich", "", {}, b"")
    assert (two.destination, two.key, two.envelope) == ("b", "k", b"\x00\xff")
    assert two.headers == unpack_headers(two.packed_headers) == {"a": "1", "ü": "x\ny"}
