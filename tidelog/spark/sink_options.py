"""SinkOptions: what a write is told, and which columns it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from protocol.compression import Codec, codec_from_name
from protocol.errors import UnsupportedCompressionError
from tidelog.segments.errors import OptionError
from tidelog.spark.broker_link import checked_address
from tidelog.spark.schema import RECORD_TYPES

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["SINK_OPTIONS", "SINK_TYPES", "SinkOptions", "check_columns", "parse_sink_options"]

SINK_OPTIONS: Final = ("broker", "topic", "compression")
SPARKS_OWN: Final = ("checkpointlocation", "path", "queryname")
"""Options of Spark's, which it passes on."""

SINK_TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": (RECORD_TYPES["headers"],),
}
"""Of Spark, by column; all but `value` may be left out."""
GIVEN_ANEW: Final = ("offset", "timestampType")
"""Columns of a source that a topic gives to its records itself."""


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write, checked. Pickles."""

    broker: str
    """host:port of its native listener."""
    topic: str | None = None
    """For all rows; None: each has one in the column `topic`."""
    codec: Codec = Codec.NONE


def parse_sink_options(raw: Mapping[str, str]) -> SinkOptions:
    """Return options checked. OptionError: one that is not there, or cannot have this value."""
    given = {name.lower(): value for name, value in raw.items()}
    for name in raw:
        if name.lower() not in (*SINK_OPTIONS, *SPARKS_OWN):
            raise OptionError(f"there is no option {name!r}; there are {', '.join(SINK_OPTIONS)}")
    try:
        codec = codec_from_name(given.get("compression", "none").strip())
    except UnsupportedCompressionError:
        raise OptionError(
            "option compression must be none, gzip, snappy, lz4 or zstd, not "
            f"{given['compression']!r}"
        ) from None
    return SinkOptions(
        broker=checked_address(given.get("broker")), topic=given.get("topic"), codec=codec
    )


def check_columns(options: SinkOptions, schema: StructType) -> None:
    """Check that the columns of a frame make records.

    Raises:
        OptionError: one is missing, is not known, or has another type.
    """
    for field in schema.fields:
        if field.name in GIVEN_ANEW:
            continue
        allowed, kind = SINK_TYPES.get(field.name), field.dataType.simpleString()
        if allowed is None:
            raise OptionError(
                f"a topic takes no column {field.name!r}; it takes {', '.join(SINK_TYPES)}"
            )
        if kind not in allowed:
            raise OptionError(f"column {field.name!r} must be {' or '.join(allowed)}, not {kind}")
    if "value" not in schema.names:
        raise OptionError("column 'value' is missing: it holds what the records are")
    if options.topic is None and "topic" not in schema.names:
        raise OptionError("where to write to is missing: give option topic, or a column 'topic'")
