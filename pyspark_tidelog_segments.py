"""Spark imports what is called `pyspark_*`, and registers the source it finds there."""

from tidelog.spark.segments_source import SegmentsSource as DefaultSource

__all__ = ["DefaultSource"]
