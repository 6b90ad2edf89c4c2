"""`python -m broker`: the daemon without the rest of the command line."""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # what imports make stays: to look through it again and again takes 10 ms in all
    from broker.daemon import main

    gc.enable()
    sys.exit(main(sys.argv[1:]))
