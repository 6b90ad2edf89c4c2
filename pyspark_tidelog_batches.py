"""Spark imports what is called `pyspark_*`, and registers the source it finds there."""

from tidelog.spark.batches_source import BatchesSource as DefaultSource

__all__ = ["DefaultSource"]
