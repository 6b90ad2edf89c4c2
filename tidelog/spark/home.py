"""Home: a SPARK_HOME from which Python workers load the installed, compiled pyspark.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of every Python that it starts,
and what is in an archive is compiled anew each time: 1.5 s of processor time for each query's
planner and for each worker, and Spark gives a stream's planner 10 s to answer. So a directory is
made that has all of the installed Spark but that archive.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelog.spark.temporary import temporary_directory

__all__ = ["ensure_home"]


def ensure_home() -> None:
    """Set SPARK_HOME, unless it is set, for workers that run the same Python as this process."""
    import pyspark

    installed = Path(pyspark.__file__).parent
    if "SPARK_HOME" in os.environ or not (installed / "jars").is_dir():
        return
    home = temporary_directory("tidelog-spark-")
    for entry in installed.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    os.environ["SPARK_HOME"] = str(home)
