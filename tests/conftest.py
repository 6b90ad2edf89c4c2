"""Fixtures that tests of all packages may use."""

from tests.support.running_broker import broker

__all__ = ["broker"]
