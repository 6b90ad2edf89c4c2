"""Bytes to values and back: every wire and disk format of Tidelog. No I/O, no clock."""
