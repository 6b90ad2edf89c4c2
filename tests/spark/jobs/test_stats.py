"""Stats: its table, Parquet files and report, over partitions in several segments."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pyarrow.parquet as pq
import pytest

from protocol.compression import Codec
from tests.support.command_line import call
from tests.support.spark_logs import EPOCH_MS, some_records, write_checkpoint, write_partition
from tidelog.segments.errors import OptionError, SegmentError
from tidelog.spark.jobs.job import Job
from tidelog.spark.jobs.stats import StatsOptions, run

HOUR_MS = 3_600_000


@pytest.fixture
def data(tmp_path):
    """Two partitions of `t` with 250 records of a second each, in segments; 30 of `<u>`."""
    root = tmp_path / "data"
    for partition, codec in ((0, Codec.NONE), (1, Codec.ZSTD)):
        write_partition(root, "t", partition, some_records(250), codec=codec)
    write_partition(root, "u.v", 0, some_records(40))
    write_checkpoint(root, "replication-offset-checkpoint", {("u.v", 0): 30})
    return root


def stats_of(spark, path, **options):
    job = Job("stats", lambda: spark)
    return run(StatsOptions(path=str(path), **options), job, clock=lambda: EPOCH_MS / 1000)


def test_given_partitions_when_looked_at_then_each_and_their_topic_have_their_figures(
    spark, data, tmp_path
):
    result = stats_of(spark, data, parquet=str(tmp_path / "out"), html=str(tmp_path / "r.html"))

    figures = [(each.topic, each.partition, each.records) for each in result.partitions]
    assert figures == [("t", 0, 250), ("t", 1, 250), ("u.v", 0, 30)]
    whole = result.topics[0]
    keyed = [record.key for record in some_records(250) if record.key is not None]
    assert (whole.topic, whole.partition, whole.records) == ("t", None, 500)
    assert (whole.distinct_keys, whole.distinct_keys_error) == (len(set(keyed)), 0)
    assert {key.key: key.count for key in whole.top_keys} == {
        key.decode(): 2 * keyed.count(key) for key in set(keyed)
    }
    assert (whole.gaps, whole.missing_offsets, whole.out_of_order) == (0, 0, 0)
    assert [share.codec for share in whole.codecs] == ["none", "zstd"]
    assert result.partitions[0].records_per_second == pytest.approx(250 / 249)
    assert result.rows()[0]["codecs"] == "none"
    _check_tables(tmp_path / "out")
    _check_page((tmp_path / "r.html").read_text())


def _check_tables(directory):
    rates = pq.read_table(directory / "rates.parquet").to_pylist()
    of_first = [row for row in rates if (row["topic"], row["partition"]) == ("t", 0)]
    assert sum(row["records"] for row in of_first) == 250
    assert {row["records"] for row in of_first[1:-1]} == {60}
    partitions = pq.read_table(directory / "partitions.parquet").to_pylist()
    assert [row["records"] for row in partitions] == [250, 250, 30]
    assert partitions[0]["first_time"].timestamp() * 1000 == EPOCH_MS
    keys = pq.read_table(directory / "top_keys.parquet").to_pylist()
    assert {row["error"] for row in keys} == {0}
    codecs = pq.read_table(directory / "codecs.parquet").to_pylist()
    assert [row["codec"] for row in codecs] == ["none", "zstd", "none"]
    sizes = pq.read_table(directory / "sizes.parquet").to_pylist()
    assert sum(row["count"] for row in sizes if row["of"] == "record") == 530


def _check_page(page):
    document = ET.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert "script" not in {element.tag for element in document.iter()}
    assert not re.search(r"(src|href)=\"(?!#)|url\(|@import", page)
    sections = list(document.iter("section"))
    assert [section.get("id") for section in sections] == ["t", "u.v"]
    titles = [title.text for title in sections[0].iter("title")]
    per_minute = [title for title in titles if "00: 2" in title]
    assert len(per_minute) >= 3  # two records a second in the whole minutes between


def test_given_bounds_when_looked_at_then_only_what_is_within(spark, data):
    result = stats_of(
        spark,
        data,
        topics=("t",),
        start_timestamp_ms=EPOCH_MS + 100_000,
        end_timestamp_ms=EPOCH_MS + 160_000,
    )

    assert [(each.topic, each.records) for each in result.partitions] == [("t", 60), ("t", 60)]


def test_given_the_command_when_run_then_a_row_a_partition_and_a_sentence(spark, data):
    done = call("spark", "stats", str(data))
    dry = call("spark", "stats", str(data), "--dry-run", "--html", "never.html")
    missing = call("spark", "stats", f"{data}/nothing")

    header, *rows = done.text.splitlines()
    assert header.split()[:4] == ["TOPIC", "PARTITION", "RECORDS", "BYTES"]
    assert [row.split()[:3] for row in rows] == [
        ["t", "0", "250"],
        ["t", "1", "250"],
        ["u.v", "0", "30"],
    ]
    assert "530 records in 3 partitions" in done.errors
    assert (done.code, dry.code, missing.code) == (0, 0, 1)
    assert "7 segments" in dry.errors


def test_given_no_directory_for_the_report_when_looked_at_then_that_is_said_first(data, tmp_path):
    with pytest.raises(OptionError, match=r"there is no directory .*/no/such"):
        stats_of(None, data, html=f"{tmp_path}/no/such/report.html")


def test_given_a_topic_that_is_not_there_when_looked_at_then_that_is_said(data):
    with pytest.raises(SegmentError, match="has no topic typo"):
        stats_of(None, data, topics=("t", "typo"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bucket_ms": 0}, "at least a millisecond"),
        ({"late_ms": -1}, "must not be below 0"),
        ({"start_timestamp_ms": 5, "end_timestamp_ms": 5}, "must be after its start"),
    ],
)
def test_given_options_that_cannot_be_when_made_then_the_sentence_says_why(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        StatsOptions(path="x", **options)
