"""Segments to Arrow and back: log files read without a broker, by NumPy and compiled kernels.

Needs `pip install 'tidelog[segments]'`. Imports `protocol` and nothing else of ours.
"""
