"""RecordRows: rows of Arrow as people and scripts read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.message_format import text_field
from tidelog.cli.times import time_text

if TYPE_CHECKING:
    import pyarrow as pa

VALUE_CHARS_MAX: Final = 200


def row_fields(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield the fields of each row, with text for bytes and milliseconds for times."""
    import pyarrow as pa

    arrays = {
        name: array.cast(pa.int64()) if name == "timestamp" else array
        for name, array in zip(batch.schema.names, batch.columns, strict=True)
    }
    for number in range(batch.num_rows):
        fields: dict[str, Any] = {}
        for name, array in arrays.items():
            value = array[number].as_py()
            if name in ("key", "value"):
                fields |= text_field(name, value)
            elif name == "timestamp":
                fields[name] = None if value is None else value // 1000
            elif name == "headers":
                fields[name] = [
                    {"name": each["key"], **text_field("value", each["value"])} for each in value
                ]
            else:
                fields[name] = value
        yield fields


def row_text(fields: dict[str, Any]) -> str:
    """Return the fields of a row on one line."""
    parts = []
    for name, value in fields.items():
        if name.endswith("_encoding"):
            continue
        if name == "timestamp" and value is not None:
            value = time_text(value) or value
        elif name == "headers":
            value = ", ".join(f"{each['name']}={_shown(each, 'value')}" for each in value) or "none"
        elif name in ("key", "value"):
            value = _shown(fields, name)
        parts.append(f"{name} {'null' if value is None else value}")
    return "  ".join(parts)


def _shown(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if value is None:
        return "null"
    label = f"{fields[f'{name}_encoding']}:" if f"{name}_encoding" in fields else ""
    if len(value) > VALUE_CHARS_MAX:
        return f"{label}{value[:VALUE_CHARS_MAX]!r}... ({len(value)} characters)"
    return f"{label}{value!r}"
