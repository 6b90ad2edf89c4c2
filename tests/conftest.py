"""Fixtures that tests of all packages may use."""

from hypothesis import settings

from tests.support.running_broker import broker

# Timing is measured in bench/, never asserted in a test: a slow machine is no counterexample.
settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")

__all__ = ["broker"]
