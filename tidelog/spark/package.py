"""Package: Tidelog's modules as one file that Spark can send to its executors.

    python -m tidelog.spark.package tidelog.zip

Their dependencies are not in it: these have compiled parts, and belong to the executors' Python.
"""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path
from typing import Final

__all__ = ["write_package"]

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("protocol", "tidelog")
"""What runs in tasks; the broker does not."""
SOURCES: Final = "pyspark_tidelog*.py"
"""By which Spark finds the data sources."""
FIRST_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Of each file in it, so that the same modules make the same bytes."""


def write_package(path: Path) -> int:
    """Write the zip file; return how many modules are in it."""
    modules = sorted(file for name in PACKAGES for file in (ROOT / name).rglob("*.py"))
    modules += sorted(ROOT.glob(SOURCES))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for module in modules:
            name = module.relative_to(ROOT).as_posix()
            package.writestr(zipfile.ZipInfo(name, FIRST_TIME), module.read_bytes())
    return len(modules)


def main() -> None:
    """Write the file that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tidelog.spark.package", description=__doc__)
    parser.add_argument("file", type=Path)
    write_package(parser.parse_args().file)


if __name__ == "__main__":
    main()
