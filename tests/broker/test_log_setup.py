"""One event a fact, in one form, whoever says it."""

import io
import json
import logging

import pytest
import structlog

from broker import log_setup


@pytest.fixture(autouse=True)
def _restored():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def events(level="info"):
    stream = io.StringIO()
    log_setup.set_up(level=level, output="json", stream=stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_given_json_when_an_event_is_said_then_it_is_one_line_with_its_fields():
    said = events()

    log_setup.get_logger("broker.x").bind(topic="a").info("topic created", partitions=4)

    (event,) = said()
    assert list(event) == ["timestamp", "level", "event", "component", "topic", "partitions"]
    assert (event["event"], event["level"], event["component"]) == (
        "topic created",
        "info",
        "broker.x",
    )
    assert event["timestamp"].endswith("Z")


def test_given_the_standard_library_when_it_logs_then_the_form_is_the_same():
    said = events()

    logging.getLogger("broker.storage").warning("segment %d rolled", 3, extra={"offset": 5})
    logging.getLogger("broker.storage").debug("too fine")

    (event,) = said()
    assert event["event"] == "segment 3 rolled"
    assert (event["component"], event["offset"], event["level"]) == ("broker.storage", 5, "warning")


def test_given_bytes_or_long_text_when_logged_then_the_payload_stays_out():
    said = events()

    log_setup.get_logger("x").info("odd", frame=b"secret", view=memoryview(b"abc"), text="y" * 9999)

    (event,) = said()
    assert event["frame"] == "<6 bytes>"
    assert event["view"] == "<3 bytes>"
    assert len(event["text"]) < 5000


def test_given_an_exception_when_logged_then_its_traceback_is_a_field():
    said = events()

    try:
        raise RuntimeError("boom")
    except RuntimeError:
        log_setup.get_logger("x").exception("request failed")
        logging.getLogger("y").exception("callback failed")

    assert ["RuntimeError: boom" in event["exception"] for event in said()] == [True, True]


def test_given_a_new_level_when_set_up_again_then_loggers_made_before_obey_it():
    said = events("error")
    logger = log_setup.get_logger("x")
    logger.info("unheard")
    assert said() == []

    said = events("debug")
    logger.debug("heard")

    assert [event["event"] for event in said()] == ["heard"]


def test_given_console_when_an_event_is_said_then_people_can_read_it():
    stream = io.StringIO()
    log_setup.set_up(level="info", output="console", stream=stream)

    log_setup.get_logger("x").info("topic created", topic="a")

    assert "topic created" in stream.getvalue()
    assert "topic=a" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()  # no terminal, no colours


def test_given_values_that_are_no_json_when_logged_then_they_are_texts():
    said = events()

    log_setup.get_logger("x").info("odd", path=object, name="é")

    (event,) = said()
    assert event["path"] == "<class 'object'>"
    assert event["name"] == "é"


def test_given_a_stream_that_fails_when_logged_then_the_caller_does_not_learn_it():
    class Broken(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    log_setup.set_up(level="info", output="json", stream=Broken())

    for level in ("info", "warning", "error", "exception", "critical"):
        getattr(log_setup.get_logger("x"), level)("unheard")
    logging.getLogger("y").error("unheard")
