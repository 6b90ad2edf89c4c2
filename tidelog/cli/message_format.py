"""Message format: a message as bytes: its value, a JSON object, or a template filled in."""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.times import time_text

if TYPE_CHECKING:
    from tidelog.client import Message

Formatter = Callable[["Message"], bytes]

ESCAPES: Final = {r"\t": "\t", r"\n": "\n", r"\0": "\0"}


def raw(message: Message) -> bytes:
    """Return the value as it is; nothing for null."""
    return message.value or b""


def as_json(message: Message) -> bytes:
    """Return one JSON object. Bytes that are not UTF-8 come as base64, with a field that says so.

    {"topic": "t", "partition": 0, "offset": 7, "timestamp": 1763712000000, "key": null,
     "value": "/w==", "value_encoding": "base64", "headers": [{"name": "n", "value": "v"}]}
    """
    fields: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        **text_field("key", message.key),
        **text_field("value", message.value),
        "headers": [
            {"name": _replaced(name), **text_field("value", value)}
            for name, value in message.headers
        ],
    }
    return json.dumps(fields, ensure_ascii=False).encode()


def template(text: str) -> Formatter:
    r"""Return what fills in `text`: {topic} {partition} {offset} {timestamp} {time} {key} {value}.

    {{ and }} are braces; \t, \n and \0 a tab, a newline and a zero byte.

    Raises:
        ValueError: another field, or no template at all.
    """
    for escape, meant in ESCAPES.items():
        text = text.replace(escape, meant)
    parts: list[tuple[bytes, Callable[[Message], bytes] | None]] = []
    for literal, field, form, conversion in string.Formatter().parse(text):
        get = None
        if field is not None:
            get = FIELDS.get(field)
            if get is None or form or conversion:
                known = ", ".join(f"{{{name}}}" for name in FIELDS)
                raise ValueError(f"{{{field}}} is none of {known}, without ! and :")
        parts.append((literal.encode("utf-8", "surrogateescape"), get))

    def fill(message: Message) -> bytes:
        return b"".join(
            literal if get is None else literal + get(message) for literal, get in parts
        )

    return fill


def text_field(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        encoded = base64.b64encode(data).decode()
        return {name: encoded, f"{name}_encoding": "base64"}


def _replaced(name: str) -> str:
    """Return a header's name; bytes in it that are not UTF-8 stand as lone surrogates."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


FIELDS: Final[dict[str, Formatter]] = {
    "topic": lambda message: message.topic.encode(),
    "partition": lambda message: b"%d" % message.partition,
    "offset": lambda message: b"%d" % message.offset,
    "timestamp": lambda message: b"%d" % message.timestamp_ms,
    "time": lambda message: (time_text(message.timestamp_ms) or "").encode(),
    "key": lambda message: message.key or b"",
    "value": lambda message: message.value or b"",
}
