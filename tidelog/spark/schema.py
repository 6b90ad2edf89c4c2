"""Schema: the columns of Spark's own Kafka source, or those of them that a user asks for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.segments.errors import OptionError
from tidelog.segments.read_options import CORRUPT, ReadOptions
from tidelog.spark.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = [
    "RECORD_TYPES",
    "arrow_schema_of",
    "chosen_columns",
    "in_schema",
    "read_options",
    "spark_schema",
]

RECORD_TYPES: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    CORRUPT: "string",
}
"""Of Spark, by column. `headers` is there with includeHeaders, `corrupt` with onCorrupt=tag."""
NULLABLE: Final = frozenset(("key", "value", CORRUPT))
NULLABLE_IN_DAMAGE: Final = frozenset(("timestamp", "timestampType"))
"""Also null, with onCorrupt=tag: in a row that stands for damage."""


def spark_schema(*, with_headers: bool = False, with_corrupt: bool = False) -> str:
    """Return the columns of a read as DDL.

    Those that are never null say so: Spark then spares a look, and a store, for each value.
    """
    left_out = {
        name for name, is_in in (("headers", with_headers), (CORRUPT, with_corrupt)) if not is_in
    }
    nullable = NULLABLE | NULLABLE_IN_DAMAGE if with_corrupt else NULLABLE
    return ", ".join(
        f"{name} {kind}" + ("" if name in nullable else " not null")
        for name, kind in RECORD_TYPES.items()
        if name not in left_out
    )


def chosen_columns(schema: StructType, types: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a schema's columns, in its order: only these need to be made.

    Args:
        types: Of the columns there are.

    Raises:
        OptionError: a column that is not there, or that has another type.
    """
    for field in schema.fields:
        expected = types.get(field.name)
        if expected is None:
            raise OptionError(f"there is no column {field.name!r}; there are {', '.join(types)}")
        if field.dataType.simpleString() != expected:
            raise OptionError(
                f"column {field.name!r} is of type {expected}, not {field.dataType.simpleString()}"
            )
    return tuple(schema.fieldNames())


def read_options(options: SourceOptions, schema: StructType) -> ReadOptions:
    """Return how to decode records for a schema. Raises as `chosen_columns`."""
    types = dict(RECORD_TYPES)
    if options.on_corrupt != "tag":
        del types[CORRUPT]
    columns = tuple(name for name in chosen_columns(schema, types) if name != CORRUPT)
    return ReadOptions(
        columns=columns or ("offset",),  # one is needed to count rows by
        check_crc=options.check_crc,
        on_corrupt=options.on_corrupt,
        isolation=options.isolation,
    )


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark wants of a read: it compares the first batch with it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arguments: dict[str, Any] = {"timezone": "UTC"}
    if "timezone" not in inspect.signature(to_arrow_schema).parameters:
        arguments = {}  # Spark 4.0 knows no other
    return to_arrow_schema(schema, **arguments)


def in_schema(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give batches the columns of Spark's schema, which names the elements of lists differently.

    No values are copied for that.
    """
    import pyarrow as pa

    for batch in batches:
        columns: list[Any] = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for field in schema
            for column in (batch.column(field.name),)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
