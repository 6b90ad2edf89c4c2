"""Schema: the columns of Spark's own Kafka source, or those of them that a user asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.segments.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["RECORD_TYPES", "arrow_schema_of", "chosen_columns", "in_schema", "spark_schema"]

RECORD_TYPES: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "corrupt": "string",
}
"""Of Spark, by column. `headers` is there with includeHeaders, `corrupt` with onCorrupt=tag."""


def spark_schema(*, with_headers: bool = False, with_corrupt: bool = False) -> str:
    """Return the columns of a read as DDL."""
    left_out = {
        name for name, is_in in (("headers", with_headers), ("corrupt", with_corrupt)) if not is_in
    }
    return ", ".join(
        f"{name} {kind}" for name, kind in RECORD_TYPES.items() if name not in left_out
    )


def chosen_columns(schema: StructType, types: Mapping[str, str] = RECORD_TYPES) -> tuple[str, ...]:
    """Return the names of a schema's columns, in its order: only these need to be decoded.

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


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark wants of a read: it compares the first batch with it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def in_schema(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give batches Spark's own schema, which names the elements of lists differently.

    No values are copied for that.
    """
    import pyarrow as pa

    for batch in batches:
        columns: list[Any] = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
