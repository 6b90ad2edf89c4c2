"""Lake: a topic as Parquet files and a log of commits, readable without Tidelog."""
