"""Fixtures that tests of all packages may use."""

import signal

from hypothesis import settings

from tests.support.running_broker import broker

# Timing is measured in bench/, never asserted in a test: a slow machine is no counterexample.
settings.register_profile("tidelog", deadline=None)
settings.load_profile("tidelog")

# A shell that runs the tests behind its back has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

__all__ = ["broker"]
