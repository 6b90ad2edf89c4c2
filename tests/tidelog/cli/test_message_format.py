"""Messages as bytes: raw, JSON, templates."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli import message_format
from tidelog.client import Message

MESSAGE = Message("logs", 2, 7, 1_763_712_000_123, b"k", b"a line", (("trace", b"1"),))
OPTIONAL_BYTES = st.none() | st.binary(max_size=20)


def bytes_of(fields, name):
    """Read a field back as a script would."""
    text = fields[name]
    if text is None:
        return None
    if fields.get(f"{name}_encoding") == "base64":
        return base64.b64decode(text)
    return text.encode()


def test_given_a_message_when_written_as_json_then_every_part_is_there():
    written = json.loads(message_format.as_json(MESSAGE))

    assert written == {
        "topic": "logs",
        "partition": 2,
        "offset": 7,
        "timestamp": 1_763_712_000_123,
        "key": "k",
        "value": "a line",
        "headers": [{"name": "trace", "value": "1"}],
    }


@given(key=OPTIONAL_BYTES, value=OPTIONAL_BYTES, header=OPTIONAL_BYTES)
def test_given_any_bytes_when_written_as_json_then_they_can_be_read_back(key, value, header):
    message = MESSAGE._replace(key=key, value=value, headers=(("h", header),))

    line = message_format.as_json(message)
    fields = json.loads(line)

    assert b"\n" not in line
    assert bytes_of(fields, "key") == key
    assert bytes_of(fields, "value") == value
    assert bytes_of(fields["headers"][0], "value") == header


def test_given_a_header_name_that_is_no_utf8_when_written_as_json_then_it_is_json_still():
    message = MESSAGE._replace(headers=((b"\xff".decode("utf-8", "surrogateescape"), None),))

    fields = json.loads(message_format.as_json(message))

    assert fields["headers"] == [{"name": "\ufffd", "value": None}]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{offset} {key} {value}", b"7 k a line"),
        ("{topic}-{partition}", b"logs-2"),
        ("{timestamp} {time}", b"1763712000123 2025-11-21T08:00:00.123Z"),
        (r"{key}\t{value}\0", b"k\ta line\0"),
        ("{{{offset}}}", b"{7}"),
        ("plain", b"plain"),
    ],
)
def test_given_a_template_when_filled_in_then_fields_are_replaced(template, expected):
    written = message_format.template(template)(MESSAGE)

    assert written == expected


def test_given_null_key_and_value_when_filled_in_then_nothing_stands_there():
    message = MESSAGE._replace(key=None, value=None, timestamp_ms=-1)

    written = message_format.template("[{key}|{value}|{time}]")(message)

    assert written == b"[||]"
    assert message_format.raw(message) == b""


@pytest.mark.parametrize(
    "template",
    [
        "{nothing}",
        "{}",
        "{0}",
        "{key.__class__}",
        "{key[0]}",
        "{offset:>10}",
        "{key!r}",
        "{key",
        "}",
    ],
)
def test_given_a_bad_template_when_made_then_it_is_refused(template):
    with pytest.raises(ValueError):
        message_format.template(template)
