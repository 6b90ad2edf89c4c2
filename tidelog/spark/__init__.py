"""Spark: data sources, sinks and jobs over topics and their segments, on PySpark."""
