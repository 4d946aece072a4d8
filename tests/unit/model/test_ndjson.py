"""The text of records, where docs/compatibility.md says how it differs from tardis-machine's."""

from tardis_machine.model.ndjson import decode_lines, encode_lines
from tardis_machine.model.records import Trade

TIME = "2024-03-01T00:00:00.000Z"


def test_numbers_have_the_value_and_not_the_text_of_the_reference() -> None:
    trade = Trade(
        symbol="XBTUSD",
        exchange="bitmex",
        price=310_805_150.0,
        amount=-0.00000452,
        side="buy",
        timestamp=TIME,
        local_timestamp=TIME,
    )
    text = encode_lines([trade])
    assert b'"price":310805150.0,"amount":-4.52e-6,' in text
    assert decode_lines(text) == [trade]
