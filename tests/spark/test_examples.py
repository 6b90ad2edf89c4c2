"""The examples do on real logs what they say."""

import collections
import datetime
import importlib.util
import re
from pathlib import Path

import pytest

from protocol.record import Record
from tests.support.spark_logs import write_partition

ROOT = Path(__file__).parents[2]
LOG = ROOT / "tests" / "data" / "loghub" / "OpenSSH_2k.log"
PARTITIONS = 4
WRITTEN = datetime.datetime(2016, 1, 2, tzinfo=datetime.UTC)
"""After New Year: the lines are of 10 December, so of the year before."""
MINUTE = datetime.timedelta(minutes=1)


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location(
        "openssh_failed_logins", ROOT / "examples" / "openssh_failed_logins.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path):
    """The log in the partitions of a topic, line by line in turn."""
    lines = LOG.read_bytes().splitlines()
    written_ms = int(WRITTEN.timestamp() * 1000)
    for partition in range(PARTITIONS):
        records = [
            Record(offset, written_ms + offset, None, line)
            for offset, line in enumerate(lines[partition::PARTITIONS])
        ]
        write_partition(tmp_path / "data", "sshd", partition, records, per_segment=200)
    return tmp_path / "data"


def time_of(line):
    time = datetime.datetime.strptime(f"2015 {line[:15]}", "%Y %b %d %H:%M:%S")
    return time.replace(tzinfo=datetime.UTC)


def counted_by_hand():
    """Failures by minute and address, of the minutes that are over by the watermark."""
    times = collections.Counter()
    lines = LOG.read_text().splitlines()
    for line in lines:
        if "Failed password for " not in line:
            continue
        address = line.partition(" from ")[2].split()[0]
        repeated = re.search("repeated (\\d+) times", line)
        minute = time_of(line).replace(second=0)
        times[minute, address] += int(repeated[1]) if repeated else 1
    last_failure = max(time_of(line) for line in lines if "Failed password for " in line)
    watermark = last_failure - datetime.timedelta(minutes=10)
    return {
        (int(minute.timestamp()), address): failed
        for (minute, address), failed in times.items()
        if minute + MINUTE <= watermark
    }


@pytest.fixture
def in_utc(spark):
    """The session, with times of lines taken for UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def test_given_real_sshd_logs_when_the_stream_ran_twice_then_failed_logins_are_counted_once(
    in_utc, example, data, tmp_path
):
    source = {"path": str(data), "subscribe": "sshd", "maxOffsetsPerTrigger": "1000"}

    first = example.start(in_utc, source, tmp_path / "logins")
    first.awaitTermination()
    second = example.start(in_utc, source, tmp_path / "logins")
    second.awaitTermination()

    table = in_utc.read.parquet(str(tmp_path / "logins"))
    rows = table.selectExpr("unix_seconds(minute) AS at", "address", "failed", "users").collect()
    found = {(row.at, row.address): row.failed for row in rows}
    assert found == counted_by_hand()
    assert len(found) == len(rows)
    assert sum(found.values()) > 200
    assert all(1 <= row.users <= row.failed for row in rows)
    assert len(first.recentProgress) >= 2  # it came in pieces
    assert sum(progress["numInputRows"] for progress in second.recentProgress) == 0
