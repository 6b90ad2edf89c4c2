"""`python -m broker`: the daemon without the rest of the command line."""

from __future__ import annotations

import sys

from broker.daemon import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
