"""One Spark session for all tests of this directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.spark import session

TIMEOUT_SECONDS = 300  # the first test starts a Java and compiles the kernels
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    home = tmp_path_factory.mktemp("spark")
    made = session(
        "tests",
        "local[2]",
        {
            "spark.driver.memory": "1g",
            "spark.sql.shuffle.partitions": 2,
            "spark.sql.warehouse.dir": home / "warehouse",
            "spark.jars.ivy": home / "ivy",
            "spark.local.dir": home / "local",
        },
    )
    yield made
    made.stop()
