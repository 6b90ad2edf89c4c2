"""Fixtures that tests of all packages may use."""

import os
import signal

from hypothesis import settings

from tests.support.running_broker import broker

# Timing is measured in bench/, never asserted in a test: a slow machine is no counterexample.
# Of 230 properties each gets so many examples in each run; what needs more says so itself.
settings.register_profile("tidelog", deadline=None, max_examples=50)
settings.load_profile("tidelog")

# A shell that runs the tests behind its back has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Spark starts a Java some twenty times, which takes a third less without what pays in hours only.
QUICK_START = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_START)

__all__ = ["broker"]
