from tardis_machine.sinks.headers import Headers, message_id
from tests.unit.sinks.delivery import events


def test_headers_name_case_type_and_both_ids() -> None:
    (event,) = events(1)
    assert dict(Headers({}).of(event)) == {
        "payloadCase": "trade",
        "dataType": "trade",
        "eventId": event.event_id,
        "deliveryId": event.delivery_id,
    }


def test_static_and_meta_headers_are_added_and_override_nothing() -> None:
    (event,) = events(1)
    headers = dict(Headers({"env": "test"}, "meta-").of(event))
    assert (headers["env"], headers["meta-request_id"]) == ("test", "r-1")
    unprefixed = dict(Headers({"request_id": "mine"}, "").of(event))
    assert unprefixed["request_id"] == "mine"
    assert unprefixed["payloadCase"] == "trade"


def test_shared_headers_are_made_once_per_series() -> None:
    headers, (one, two) = Headers({}), events(2)
    assert headers.shared(one.series) is headers.shared(two.series)


def test_message_id_is_of_the_delivery_the_content_or_absent() -> None:
    (event,) = events(1)
    assert message_id(event, "sequence") == event.delivery_id
    assert message_id(event, "content") == event.event_id
    assert message_id(event, "off") is None
