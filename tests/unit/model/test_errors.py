from tardis_machine.model.errors import (
    SettingsError,
    SinkError,
    SinkUnavailableError,
    UnknownNameError,
    UpstreamStatusError,
    nearest_hint,
)


def test_unknown_name_tells_value_valid_ones_and_nearest() -> None:
    error = UnknownNameError("exchange", "Bitmax", ("bitmex", "okex"))
    assert str(error) == "Unknown exchange 'Bitmax'. Did you mean 'bitmex'? Valid: bitmex, okex."


def test_hint_is_empty_when_nothing_is_near() -> None:
    assert nearest_hint("zzzz", ("bitmex",)) == ""


def test_settings_error_holds_every_problem() -> None:
    error = SettingsError("one", "two")
    assert error.problems == ("one", "two")
    assert str(error) == "one\ntwo"


def test_retrying_is_a_property_of_the_type() -> None:
    assert SinkUnavailableError("down").retryable
    assert not SinkError("refused").retryable


def test_status_error_has_the_text_clients_match_on() -> None:
    error = UpstreamStatusError(401, "no key", "http://host/x")
    assert str(error) == "HttpError: status code: 401, response text: no key"
