"""Handlers of the native protocol, one file per request family."""
