"""Benchmarks: each prints the machine, the versions, a table, and ratios to a floor of its run.

Absolute figures swing with the machine; a ratio to a server that does nothing but the unavoidable
work, measured seconds apart, is what a change is judged by.
"""
