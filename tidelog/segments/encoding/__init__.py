"""Encoding: Arrow columns to record batches."""
