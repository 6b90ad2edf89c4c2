"""`tidelog serve`: the daemon. What its arguments mean is the daemon's own business."""

from __future__ import annotations

from collections.abc import Sequence


def serve(arguments: Sequence[str]) -> int:
    """Run the broker until it is told to stop; return its exit code."""
    from broker.daemon import main

    return main(list(arguments))
