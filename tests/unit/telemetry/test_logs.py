import io
import json
import logging
import warnings

import pytest
import structlog

from tardis_machine.model.settings import Secret
from tardis_machine.telemetry.loggers import get_logger
from tardis_machine.telemetry.logs import LogSettings, configure_logs

pytestmark = pytest.mark.usefixtures("restored_logging")


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_log_line_is_json_when_not_on_a_terminal(stream: io.StringIO) -> None:
    configure_logs(LogSettings(), stream)
    get_logger("tardis_machine.sinks").info("batch sent", sink="kafka", events=256)
    (line,) = lines(stream)
    assert line.pop("timestamp")
    assert line == {
        "event": "batch sent",
        "level": "info",
        "logger": "tardis_machine.sinks",
        "sink": "kafka",
        "events": 256,
    }


def test_console_form_is_one_readable_line(stream: io.StringIO) -> None:
    configure_logs(LogSettings(log_format="console"), stream)
    get_logger("tardis_machine").info("batch sent", events=256)
    assert "batch sent" in stream.getvalue()
    assert "events=256" in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_field_named_like_an_attribute_of_a_log_record_is_kept(stream: io.StringIO) -> None:
    configure_logs(LogSettings(), stream)
    get_logger("tardis_machine").info("made", name="x", module="y", args=[1])
    assert lines(stream)[0]["name"] == "x"
    assert lines(stream)[0]["args"] == [1]


def test_debug_lines_appear_only_in_debug_mode(stream: io.StringIO) -> None:
    configure_logs(LogSettings(), stream)
    get_logger("tardis_machine").debug("hidden")
    configure_logs(LogSettings(debug=True), stream)
    get_logger("tardis_machine").debug("shown")
    assert [line["event"] for line in lines(stream)] == ["shown"]


def test_libraries_come_through_from_warning_on(stream: io.StringIO) -> None:
    configure_logs(LogSettings(debug=True), stream)
    logging.getLogger("some.library").info("quiet")
    logging.getLogger("some.library").warning("lost %d", 3)
    assert [line["event"] for line in lines(stream)] == ["lost 3"]


def test_python_warnings_become_log_lines(stream: io.StringIO) -> None:
    configure_logs(LogSettings(), stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        # `catch_warnings` put the plain function back; capture again inside it.
        logging.captureWarnings(capture=False)
        logging.captureWarnings(capture=True)
        warnings.warn("old option", stacklevel=1)
    assert "old option" in str(lines(stream)[0]["event"])


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": "hunter2"},
        {"token": "hunter2"},
        {"sasl_password": "hunter2"},
        {"value": Secret("hunter2")},
        {"url": "http://host/replay?token=hunter2&x=1"},
        {"url": "redis://user:hunter2@host/0"},
        {"url": "redis://:hunter2@host"},
        {"host": "user:hunter2@host"},
        {"error": "Error -2 connecting to user:hunter2@host:6379. Name not known."},
        {"hosts": ["a:1", "user:hunter2@host"]},
        {"options": {"password": "hunter2", "host": "user:hunter2@h"}},
        {"header": "Authorization: Bearer hunter2"},
        {"text": "Endpoint=sb://x/;SharedAccessKey=hunter2;EntityPath=y"},
    ],
)
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_secret_is_masked(fields: dict[str, object], log_format: str, stream: io.StringIO) -> None:
    configure_logs(LogSettings(log_format=log_format), stream)  # type: ignore[arg-type]
    get_logger("tardis_machine").info("connected", **fields)
    assert "***" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_harmless_fields_are_not_masked(stream: io.StringIO) -> None:
    configure_logs(LogSettings(), stream)
    get_logger("tardis_machine").info("routed", key_template="{{symbol}}", keys=3)
    line = lines(stream)[0]
    assert (line["key_template"], line["keys"]) == ("{{symbol}}", 3)


def test_address_of_a_stream_is_not_taken_for_a_password(stream: io.StringIO) -> None:
    configure_logs(LogSettings(), stream)
    url = "wss://host:9443/stream?streams=btcusdt@trade/btcusdt@depth"
    frame = '{"params":["btcusdt@trade"],"stream":"btcusdt@depth"}'
    get_logger("tardis_machine").info("connected", url=url, frame=frame)
    assert (lines(stream)[0]["url"], lines(stream)[0]["frame"]) == (url, frame)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_traceback_does_not_show_local_variables(log_format: str, stream: io.StringIO) -> None:
    configure_logs(LogSettings(log_format=log_format), stream)  # type: ignore[arg-type]
    local = "".join(["hun", "ter2"])
    try:
        raise ValueError(f"no {len(local)}")
    except ValueError:
        get_logger("tardis_machine").exception("failed")
    assert "ValueError" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


def test_structlog_set_up_by_the_application_is_left_alone(stream: io.StringIO) -> None:
    seen: list[str] = []

    def collect(_logger: object, _method: str, event: dict[str, object]) -> str:
        seen.append(str(event["event"]))
        raise structlog.DropEvent

    structlog.configure(processors=[collect])
    configure_logs(LogSettings(), stream)
    get_logger("tardis_machine").info("mine")
    assert seen == ["mine"]
