"""StatsTables: what `stats` finds as Parquet files, for notebooks and dashboards.

partitions.parquet   a row a partition: all figures
rates.parquet        a row an interval of a partition: records and bytes
top_keys.parquet     a row a frequent key of a partition
codecs.parquet       a row a codec of a partition
sizes.parquet        a row a power of two: how many records, or batches, are up to so large
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from protocol.identifiers import TopicPartition
from tidelog.segments.location import Location
from tidelog.segments.statistics.log_statistics import LogStatistics
from tidelog.spark.jobs.stats_result import LogFigures, SizeFigures, StatsResult

__all__ = ["write_tables"]

TIME: Final = pa.timestamp("ms", tz="UTC")
_TYPES: Final = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
_KEY: Final = [("topic", pa.string()), ("partition", pa.int32())]
RATES: Final = pa.schema([
    *_KEY, ("start", TIME), ("interval_ms", pa.int64()), ("records", pa.int64()),
    ("bytes", pa.int64()),
])  # fmt: skip
TOP_KEYS: Final = pa.schema([
    *_KEY, ("key", pa.string()), ("count", pa.int64()), ("error", pa.int64()),
])  # fmt: skip
CODECS: Final = pa.schema([
    *_KEY, ("codec", pa.string()), ("batches", pa.int64()), ("records", pa.int64()),
    ("stored_bytes", pa.int64()), ("raw_bytes", pa.int64()),
])  # fmt: skip
SIZES: Final = pa.schema([
    *_KEY, ("of", pa.string()), ("bytes_up_to", pa.int64()), ("count", pa.int64()),
])  # fmt: skip


def write_tables(
    directory: Location, result: StatsResult, found: Mapping[TopicPartition, LogStatistics]
) -> list[str]:
    """Write the tables; return their paths.

    Args:
        directory: Made where it is missing; files of these names are replaced.
    """
    tables = {
        "partitions": _partitions(result),
        "rates": _table(RATES, [
            (*key, bucket.start_ms, each.rates.width_ms, bucket.records, bucket.size_bytes)
            for key, each in found.items() for bucket in each.rates.buckets()
        ]),
        "top_keys": _table(TOP_KEYS, [
            (each.topic, each.partition, *msgspec.structs.astuple(key))
            for each in result.partitions for key in each.top_keys
        ]),
        "codecs": _table(CODECS, [
            (each.topic, each.partition, *msgspec.structs.astuple(share))
            for each in result.partitions for share in each.codecs
        ]),
        "sizes": _table(SIZES, [
            (*key, of, bound, count)
            for key, each in found.items()
            for of, sizes in (("record", each.record_bytes), ("batch", each.batch_bytes))
            for bound, count in sizes.powers_of_two()
        ]),
    }  # fmt: skip
    directory.filesystem.create_dir(directory.path, recursive=True)
    paths = []
    for name, table in tables.items():
        path = directory.child(f"{name}.parquet").path
        pq.write_table(table, path, filesystem=directory.filesystem)
        paths.append(path)
    return paths


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema,
              strict=True)]  # fmt: skip
    return pa.Table.from_arrays(arrays, schema=schema)


def _partitions(result: StatsResult) -> pa.Table:
    """Return all figures that are one value; distributions as columns such as `record_bytes_p50`.

    The columns and their types are those of `LogFigures`.
    """
    columns: dict[str, pa.Array] = {}
    for field in msgspec.structs.fields(LogFigures):
        values = [getattr(each, field.name) for each in result.partitions]
        if field.name in ("top_keys", "codecs"):
            continue
        if field.type is SizeFigures:
            for part in msgspec.structs.fields(SizeFigures):
                kind = pa.float64() if part.name == "mean" else pa.int64()
                parts = [getattr(value, part.name) for value in values]
                columns[f"{field.name}_{part.name}"] = pa.array(parts, type=kind)
        elif field.name.endswith("_time"):
            columns[field.name] = pa.array(values, type=TIME)
        elif field.name == "partition":
            columns[field.name] = pa.array(values, type=pa.int32())
        else:
            columns[field.name] = pa.array(values, type=_type_of(field.type))
    return pa.table(columns)


def _type_of(annotation: Any) -> pa.DataType:
    """Return Arrow's type for `int`, or for `int | None`."""
    kinds = getattr(annotation, "__args__", (annotation,))
    return next(_TYPES[kind] for kind in kinds if kind in _TYPES)
