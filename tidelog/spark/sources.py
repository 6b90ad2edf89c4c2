"""Sources: what `spark.read.format(...)` finds by name.

Importing this registers them with the session that is active; a module `pyspark_*` for each lets
Spark find them by itself where the package is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidelog.spark.batches_source import BatchesSource
from tidelog.spark.broker_source import BrokerSource
from tidelog.spark.segments_source import SegmentsSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

__all__ = ["SOURCES", "register"]

SOURCES: Final[tuple[type[DataSource], ...]] = (
    BrokerSource,
    SegmentsSource,
    BatchesSource,
)


def register(spark: Any) -> None:
    """Make all sources known to a session by their names.

    Those that Spark has found itself, by the modules `pyspark_*`, are left: it warns of each that
    is registered over another, though they are the same.
    """
    for source in SOURCES:
        if _is_known(spark, source.name()):
            continue
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise


def _is_known(spark: Any, name: str) -> bool:
    java = getattr(spark, "_jsparkSession", None)  # a Spark Connect session has none
    return java is not None and bool(java.sessionState().dataSourceManager().dataSourceExists(name))


if (active := SparkSession.getActiveSession()) is not None:
    register(active)
