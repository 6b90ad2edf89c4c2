"""`tidelog_batches`: a row for each batch of a data directory; for audits and statistics."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidelog.segments.batch_rows import BATCH_ROWS
from tidelog.spark.directory_reader import directory_reader
from tidelog.spark.options import BATCHES_OPTIONS, parse_options
from tidelog.spark.schema import chosen_columns
from tidelog.spark.split_rows import BatchRows

__all__ = ["BatchesSource"]


class BatchesSource(DataSource):
    """`spark.read.format("tidelog_batches")`; the options are BATCHES_OPTIONS.

    The columns are BATCH_ROWS; damage is a row and fails no query.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options, BATCHES_OPTIONS, required="path")

    @classmethod
    def name(cls) -> str:
        return "tidelog_batches"

    def schema(self) -> StructType:
        columns: StructType = from_arrow_schema(BATCH_ROWS)
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        types = {field.name: field.dataType.simpleString() for field in self.schema().fields}
        chosen_columns(schema, types)
        return directory_reader(self._parsed, BatchRows(self._parsed, schema))
