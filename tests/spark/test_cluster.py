"""A cluster of two executors, whose Python has no Tidelog: it is sent, as docs/spark.md says."""

import json
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.spark_logs import some_records, write_partition
from tidelog.spark.package import write_package

TIMEOUT_S = 280
DRIVER = """
import json, os, sys
from tidelog.cli.app import execute
from tidelog.spark import session

package, python, data, lake = sys.argv[1:]
spark = session("cluster", "local-cluster[2,1,1024]", {
    "spark.submit.pyFiles": package,
    "spark.pyspark.python": python,
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
})
codes = [
    execute(["spark", "archive", data, "--to", lake, "--json"]),
    execute(["spark", "audit", data, "--json"]),
]
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print(json.dumps({"codes": codes, "executors": executors}))
spark.stop()
"""


@pytest.fixture
def bare_python(tmp_path):
    """A Python with all that Tidelog needs, and without Tidelog."""
    home = tmp_path / "python"
    venv.create(home, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    # .pth files in a directory that a .pth file adds are not read: an editable install stays out.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = home / "bin" / "python"
    imports = [python, "-c", "import pyspark, tidelog"]
    missing = subprocess.run(imports, cwd=home, capture_output=True)
    assert b"No module named 'tidelog'" in missing.stderr
    return python


@pytest.mark.timeout(TIMEOUT_S)
def test_given_two_executors_when_the_package_is_sent_then_archive_and_audit_run_there(
    bare_python, tmp_path
):
    records = some_records(200)
    for partition in range(2):
        write_partition(tmp_path / "data", "logs", partition, records)
    write_package(tmp_path / "tidelog.zip")
    arguments = [tmp_path / "tidelog.zip", bare_python, tmp_path / "data", tmp_path / "lake"]

    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *map(str, arguments)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )

    assert done.returncode == 0, done.stderr
    archived, audited, ended = map(json.loads, done.stdout.splitlines())
    assert ended == {"codes": [0, 1], "executors": 2}
    assert sum(partition["records"] for partition in archived["partitions"]) == 400
    assert (audited["segments"], audited["records"]) == (4, 400)
    assert {fault["severity"] for fault in audited["faults"]} == {"warning"}  # there are no indexes
    files = sorted(Path(tmp_path, "lake", "logs", "data").glob("*/*.parquet"))
    offsets = [offset for file in files for offset in pq.read_table(file)["offset"].to_pylist()]
    assert offsets == [*range(200), *range(200)]


def test_given_the_package_when_written_twice_then_it_is_the_same(tmp_path):
    counts = [write_package(tmp_path / name) for name in ("a.zip", "b.zip")]

    assert counts[0] == counts[1] > 100
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
