"""Audit: what is wrong with the files of partitions, byte for byte."""
