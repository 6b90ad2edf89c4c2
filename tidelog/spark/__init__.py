"""Spark: data sources, sinks and jobs over topics and their segments, on PySpark."""

from tidelog.spark.session import session

__all__ = ["register", "session"]


def register(spark: object) -> None:
    """Make the sources `tidelog`, `tidelog_segments` and `tidelog_batches` known to a session."""
    from tidelog.spark import sources

    sources.register(spark)
