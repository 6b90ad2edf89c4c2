"""`tidelog serve`: the daemon. What its arguments mean is the daemon's own business."""

from __future__ import annotations

import gc
from collections.abc import Sequence


def serve(arguments: Sequence[str]) -> int:
    """Run the broker until it is told to stop; return its exit code."""
    gc.disable()  # what imports make stays: to look through it again and again takes 10 ms in all
    from broker.daemon import main

    gc.enable()
    return main(list(arguments))
