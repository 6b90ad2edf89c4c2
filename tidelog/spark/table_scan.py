"""Table scan: all that a source reads, on a shorter way through Spark than a source has.

    spark.read     Arrow of a Python task -> a row -> the same row again, copied -> the query
    scan           Arrow of a Python task -> a row                               -> the query

Behind each Python data source Spark (4.3) puts a projection that copies every row, and asks for
its metrics every hundred rows: a third of Java's time for records of 100 bytes. `mapInArrow` has
neither. For that it is told no conditions and plans at the call, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tidelog.spark.session import setting_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.types import StructType

__all__ = ["scan"]


def scan(
    spark: SparkSession,
    path: str | None = None,
    *,
    format: str = "tidelog_segments",
    schema: StructType | str | None = None,
    **options: Any,
) -> DataFrame:
    """Return the frame of `spark.read.format(format).options(**options).load(path)`, but quicker.

    What is there is looked up now; each query of the frame then reads the same offsets.

    Args:
        spark: A classic session: not one of Spark Connect.
        schema: The columns to make; None: all. Only these are decoded.
        options: Those of the source.

    Raises:
        OptionError: a format, a column or an option that is not there, or one that is wrong.
        SegmentError: the directory, or the broker, is not there.
    """
    from pyspark.sql.types import StructType

    if path is not None:
        options["path"] = path
    source = _source(format)({name: setting_text(value) for name, value in options.items()})
    columns: Any = source.schema() if schema is None else schema
    wanted: Any = StructType.fromDDL(columns) if isinstance(columns, str) else columns
    reader = source.reader(wanted)
    partitions = reader.partitions()
    indexes = spark.range(0, len(partitions), 1, max(1, len(partitions)))
    return _map_in_arrow(indexes, _reads(reader, partitions), wanted)


def _source(name: str) -> type[DataSource]:
    from tidelog.segments.errors import OptionError
    from tidelog.spark.sources import SOURCES

    found = {source.name(): source for source in SOURCES}.get(name)
    if found is None:
        names = ", ".join(source.name() for source in SOURCES)
        raise OptionError(f"there is no format {name!r}; there are {names}")
    return found


def _reads(
    reader: DataSourceReader, partitions: Sequence[InputPartition]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]:
    def read(indexes: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        for batch in indexes:
            for index in batch.column(0).to_pylist():
                yield from reader.read(partitions[index])

    return read


def _map_in_arrow(frame: DataFrame, function: Callable[..., Any], schema: StructType) -> DataFrame:
    """Return `frame.mapInArrow(function, schema)`, which asks for pandas and has no need of it."""
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    mapping = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = mapping(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
