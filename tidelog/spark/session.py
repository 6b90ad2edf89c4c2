"""Session: a SparkSession with the settings without which the sources are several times slower.

`docs/spark.md` says what each of them is for, for those who make their sessions themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.home import ensure_home
from tidelog.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "session", "setting_text"]

JAVA_OPTIONS: Final = (
    "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
)
"""Without Arrow's look, at each value, whether it is there and null: Spark has looked."""

SETTINGS: Final[Mapping[str, str]] = {
    # Over TCP each task waits 40 ms for a delayed acknowledgement. Spark 4.1 and newer.
    "spark.python.unix.domain.socket.enabled": "true",
    # Any smaller limit has Spark add up the batch's size at each row, which for a column of empty
    # lists takes time quadratic in the rows. 10,000 rows, the default, is the limit that remains.
    "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    # Else conditions on offset, partition and timestamp are looked at after the read. Since 4.1.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.driver.defaultJavaOptions": JAVA_OPTIONS,  # what users give as extra ones comes behind
    "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
    # A second of each start, and a port; a job that runs for hours may well want it on.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    # A machine whose own name leads nowhere can run Spark as well.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(
    app_name: str = "tidelog", master: str | None = None, conf: Mapping[str, Any] | None = None
) -> SparkSession:
    """Return a session with Tidelog's sources registered and `SETTINGS` set.

    One that is there already is taken as it is; `conf` is then set as far as Spark allows it.

    Args:
        master: None: that of `conf`, or of `spark-submit` if that runs this program, else
            `local[*]`.
        conf: Of Spark; wins over `SETTINGS`, as does what `spark-submit` was given.

    Raises:
        JavaMissingError: there is no Java that can run Spark.
    """
    from pyspark.sql import SparkSession

    from tidelog.spark.sources import register

    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # then Java runs, and has its settings
    settings = {name: setting_text(value) for name, value in (conf or {}).items()}
    if master is not None:
        settings["spark.master"] = master
    if SparkSession.getActiveSession() is None:
        if is_submitted:
            settings = {**_submitted_settings(), **settings}
        else:
            ensure_java()
            settings.setdefault("spark.master", "local[*]")
        if settings.get("spark.master", "").startswith("local"):
            # Else workers run the `python3` of PATH, which may know nothing of us.
            python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            if python == sys.executable and not is_submitted:
                ensure_home()
            settings = {**LOCAL_SETTINGS, **settings}
        settings = {"spark.app.name": app_name, **SETTINGS, **settings}
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _submitted_settings() -> dict[str, str]:
    """Return what `spark-submit` was given, and its `spark-defaults.conf`."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the Java that runs this program
    return dict(SparkConf().getAll())


def setting_text(value: Any) -> str:
    """Return a setting, or an option, as Spark takes it: as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
