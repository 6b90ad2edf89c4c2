"""Sketches: what is known of many records in little room; two of a kind merge into one of both."""
