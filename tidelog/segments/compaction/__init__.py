"""Compaction: partitions written anew with the last record of each key only."""
