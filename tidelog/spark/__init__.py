"""Spark: data sources, sinks and jobs over topics and their segments, on PySpark."""

from tidelog.spark.session import session
from tidelog.spark.table_scan import scan

__all__ = ["register", "scan", "session"]


def register(spark: object) -> None:
    """Make the sources `tidelog`, `tidelog_segments` and `tidelog_batches` known to a session."""
    from tidelog.spark import sources

    sources.register(spark)
