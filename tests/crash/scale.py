"""How much these tests do: little in `make test`, much in `make crash`."""

import os

SCALE = int(os.environ.get("TIDELOG_CRASH_SCALE", "1"))
"""`make crash` sets it."""

SEEDS = SCALE
"""Of a story that is told with a crash at each change."""
