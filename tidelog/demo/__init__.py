"""`make demo`, or `python -m tidelog.demo FILE`."""
