"""Spark imports what is called `pyspark_*`, and registers the source it finds there."""

from tidelog.spark.broker_source import BrokerSource as DefaultSource

__all__ = ["DefaultSource"]
