"""`make bench`: run the benchmarks and print one table.

python -m bench [native] [start] [cleaner] [recovery] [codec] [kafka] [spark] [--scale 0.1]
"""

from __future__ import annotations

import argparse

from bench import cleaner, codec, kafka, machine, native, recovery, spark, start
from bench.table import Table

SUITES = {
    "native": native.run,
    "start": start.run,
    "cleaner": cleaner.run,
    "recovery": recovery.run,
    "codec": codec.run,
    "kafka": kafka.run,
    "spark": spark.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], help="default: all of them")
    parser.add_argument("--scale", type=float, default=1.0, help="0.1 is a quick look")
    chosen = parser.parse_args()
    print(machine.describe(), flush=True)
    table = Table()
    for name in chosen.suites or SUITES:
        SUITES[name](table, chosen.scale)
    print()
    print(table.markdown())


if __name__ == "__main__":
    main()
