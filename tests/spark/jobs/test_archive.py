"""`tidelog spark archive`, on data directories and on a running broker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from tests.support.spark_logs import rows_of, some_records, write_checkpoint, write_partition
from tidelog.lake.iceberg import lake_catalog
from tidelog.lake.log import TopicLog
from tidelog.lake.reader import open_topic, read_lake_table
from tidelog.lake.store import LocalStore
from tidelog.lake.verification import verify_topic
from tidelog.segments.errors import DataLossError, OptionError
from tidelog.segments.location import locate
from tidelog.spark.jobs import archive as archive_module
from tidelog.spark.jobs.archive import ArchiveOptions, run
from tidelog.spark.jobs.archive_source import DirectorySource
from tidelog.spark.jobs.job import Job, JobError

KAFKA = Path(__file__).resolve().parents[2] / "data" / "kafka-transactions"
TOPIC = "web-logs"
RECORDS = some_records(300)


@pytest.fixture
def logs(tmp_path):
    root = tmp_path / "logs"
    write_partition(root, TOPIC, 0, RECORDS)
    write_partition(root, TOPIC, 1, RECORDS[:50])
    write_partition(root, "other", 0, RECORDS[:20])
    write_partition(root, "__consumer_offsets", 0, RECORDS[:20])
    return root


@pytest.fixture
def job(spark):
    return Job("archive", lambda: spark)


@pytest.fixture
def options(tmp_path, logs):
    return ArchiveOptions(lake=str(tmp_path / "lake"), path=str(logs), task_bytes=4_000)


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(
        (
            row["topic"], row["partition"], row["offset"],
            round(row["timestamp"].timestamp() * 1_000), row["key"], row["value"],
        )
        for row in table.to_pylist()
    )  # fmt: skip


def listed(options: ArchiveOptions, topic: str = TOPIC) -> list[tuple[object, ...]]:
    data = Path(options.lake, topic, "data")
    return rows(ds.dataset(data, format="parquet", partitioning="hive").to_table())


ALL = [*rows_of(RECORDS, TOPIC, 0), *rows_of(RECORDS[:50], TOPIC, 1)]


def test_given_a_directory_when_archived_then_each_record_is_there_once_with_its_headers(
    job, options
):
    result = run(options, job)

    assert listed(options) == ALL
    assert rows(read_lake_table(options.lake, TOPIC)) == ALL
    headers = read_lake_table(options.lake, TOPIC, columns=["headers"])["headers"].to_pylist()
    assert headers[:2] == [[], [{"key": "n", "value": b"1"}, {"key": "null", "value": None}]]
    assert listed(options, "other") == rows_of(RECORDS[:20], "other", 0)
    assert not Path(options.lake, "__consumer_offsets").exists()
    assert (result.records, result.is_ok) == (370, True)
    assert max(row["files"] for row in result.rows()) > 1
    log = open_topic(locate(options.lake), TOPIC)
    assert list(verify_topic(log, is_deep=True)) == []


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_given_kafkas_transactions_when_archived_then_only_committed_records_unless_told_otherwise(
    job, options, isolation
):
    options = msgspec.structs.replace(options, path=str(KAFKA), topics=("txn",))
    if isolation != options.isolation:
        options = msgspec.structs.replace(options, isolation=isolation)
    served = json.loads((KAFKA / "expected.json").read_text())

    run(options, job)

    found = [(row[1], row[2]) for row in listed(options, "txn")]
    committed = [
        (partition, offset)
        for partition in (0, 1)
        for first, last in served[f"txn-{partition}"]["read_committed_offsets"]
        for offset in range(first, last + 1)
    ]
    if isolation == "read_committed":
        assert found == committed
    else:
        assert set(found) > set(committed)
        assert max(found)[1] < served["txn-1"]["latest"]
    log = open_topic(locate(options.lake), "txn")
    log.refresh()
    assert log.state.ends == {
        partition: served[f"txn-{partition}"][
            "last_stable" if isolation == "read_committed" else "latest"
        ]
        for partition in (0, 1)
    }


def test_given_an_archive_when_run_again_then_only_what_is_new_is_added(job, options, logs):
    run(options, job)
    entries = len(open_topic(locate(options.lake), TOPIC).entries())
    nothing = run(options, job)
    write_partition(logs, TOPIC, 1, RECORDS[50:60])

    result = run(options, job)

    assert nothing.rows() == []
    assert result.rows()[0]["start_offset"] == 50
    assert result.records == 10
    assert len(open_topic(locate(options.lake), TOPIC).entries()) == entries + 1
    assert listed(options) == sorted([*ALL, *rows_of(RECORDS[50:60], TOPIC, 1)])


def test_given_a_high_watermark_when_archived_then_nothing_above_it_is(job, options, logs):
    ends = {(TOPIC, 0): 120, (TOPIC, 1): 7, ("other", 0): 0}
    write_checkpoint(logs, "replication-offset-checkpoint", ends)

    run(options, job)

    assert len(listed(options)) == 127
    assert not Path(options.lake, "other", "data").exists()


def test_given_an_interval_when_records_come_then_they_are_archived_and_files_merged(
    job, options, logs, monkeypatch
):
    monkeypatch.setattr(archive_module, "FILES_MIN_CONTINUOUS", 4)
    starts = iter((50, 60, 70))

    def wait(seconds: float) -> bool:
        assert seconds == 30.0
        start = next(starts, None)
        if start is not None:
            write_partition(logs, TOPIC, 1, RECORDS[start : start + 10])
        return start is not None

    options = msgspec.structs.replace(
        options, interval_s=30.0, compact=True, topics=(TOPIC,), task_bytes=1 << 20
    )

    result = run(options, job, wait=wait)

    assert listed(options) == [*rows_of(RECORDS, TOPIC, 0), *rows_of(RECORDS[:80], TOPIC, 1)]
    assert (result.merged_files, result.made_files) == (4, 1)
    assert list(verify_topic(open_topic(locate(options.lake), TOPIC), is_deep=True)) == []


def test_given_a_wish_to_stop_when_archived_then_it_ends_behind_a_commit_and_goes_on_later(
    job, options, monkeypatch
):
    monkeypatch.setattr(archive_module, "ROUND_TASKS_PER_CORE", 1)
    options = msgspec.structs.replace(options, interval_s=30.0, topics=(TOPIC,))

    stopped = run(options, job, is_stopped=lambda: True)
    rest = run(options, job, wait=lambda seconds: False)

    assert 0 < stopped.records < 350
    assert stopped.records + rest.records == 350
    assert listed(options) == ALL


def test_given_small_files_when_compacted_then_a_partition_has_one_and_all_records(job, options):
    run(options, job)
    before = len(list(Path(options.lake, TOPIC).rglob("*.parquet")))

    result = run(ArchiveOptions(lake=options.lake, compact=True, topics=(TOPIC,)), job)

    assert before > 3
    assert (result.merged_files, result.made_files) == (before - 1, 1)
    assert [path.name for path in sorted(Path(options.lake, TOPIC).rglob("*.parquet"))] == [
        "00000000000000000000-00000000000000000300.parquet",
        "00000000000000000000-00000000000000000050.parquet",
    ]
    assert listed(options) == ALL


def test_given_another_compaction_that_is_faster_when_compacted_then_nothing_is_lost(
    job, options, monkeypatch
):
    run(options, job)
    real = archive_module.run_tasks
    compaction = ArchiveOptions(lake=options.lake, compact=True)

    def overtaken(session, work, items):
        monkeypatch.setattr(archive_module, "run_tasks", real)
        run(compaction, job)
        return real(session, work, items)

    monkeypatch.setattr(archive_module, "run_tasks", overtaken)

    result = run(compaction, job)

    assert (result.merged_files, result.made_files) == (0, 0)
    assert listed(options) == ALL


def test_given_tables_when_archived_and_compacted_then_they_have_each_record_once(job, options):
    options = msgspec.structs.replace(options, tables=("delta", "iceberg"), topics=(TOPIC,))
    run(options, job)

    run(msgspec.structs.replace(options, path=None, compact=True), job)

    iceberg = lake_catalog(locate(options.lake)).load_table(("tidelog", TOPIC)).scan().to_arrow()
    delta = DeltaTable(Path(options.lake, TOPIC))
    assert rows(iceberg) == ALL
    assert rows(delta.to_pyarrow_table()) == ALL
    assert len(delta.file_uris()) == 2


def test_given_a_dry_run_when_run_then_it_says_what_it_would_do_and_changes_nothing(
    options, tmp_path
):
    def no_session() -> None:
        raise AssertionError("no Spark is needed for that")

    result = run(options, Job("archive", no_session, is_dry_run=True))

    assert [(row["topic"], row["partition"], row["end_offset"]) for row in result.rows()] == [
        ("other", 0, 20), (TOPIC, 0, 300), (TOPIC, 1, 50),
    ]  # fmt: skip
    assert result.sentence() == "370 offsets of 3 partitions would be archived"
    assert not Path(options.lake).exists()


def test_given_records_that_retention_deleted_when_archived_then_an_error_or_a_recorded_gap(
    job, options, logs
):
    keep = logs.parent / "keep"
    shutil.copytree(logs, keep)
    for partition in (0, 1):
        shutil.rmtree(logs / f"{TOPIC}-{partition}")
    write_partition(logs, TOPIC, 0, RECORDS[:100])
    run(options, job)
    shutil.rmtree(logs / f"{TOPIC}-0")
    write_partition(logs, TOPIC, 0, RECORDS[200:])

    with pytest.raises(DataLossError, match="offsets 100 to 199 of web-logs-0"):
        run(options, job)
    result = run(msgspec.structs.replace(options, fail_on_data_loss=False), job)

    expected = [*RECORDS[:100], *RECORDS[200:]]
    assert listed(options) == rows_of(expected, TOPIC, 0)
    assert result.rows()[0]["lost_offsets"] == 100
    assert not result.is_ok
    log = open_topic(locate(options.lake), TOPIC)
    log.refresh()
    assert [(gap.start_offset, gap.end_offset, gap.reason) for gap in log.state.gaps] == [
        (100, 200, "lost")
    ]


def test_given_a_shorter_topic_than_was_archived_when_archived_then_it_is_an_error(
    job, options, logs
):
    run(options, job)
    shutil.rmtree(logs / f"{TOPIC}-0")
    write_partition(logs, TOPIC, 0, RECORDS[:10])

    with pytest.raises(DataLossError, match=r"web-logs-0 up to offset 300, it ends at 10"):
        run(options, job)


def test_given_files_that_vanish_after_they_were_planned_when_archived_then_it_plans_anew(
    job, options, logs, monkeypatch
):
    real, paths = archive_module.run_tasks, sorted((logs / f"{TOPIC}-0").glob("*.log"))

    def overtaken(session, work, items):
        monkeypatch.setattr(archive_module, "run_tasks", real)
        paths[0].unlink()
        return real(session, work, items)

    monkeypatch.setattr(archive_module, "run_tasks", overtaken)

    result = run(msgspec.structs.replace(options, fail_on_data_loss=False), job)

    assert listed(options) == [row for row in ALL if row[1] == 1 or row[2] >= 100]
    assert result.is_ok  # the archive began behind what was deleted


def test_given_a_piece_that_vanishes_when_a_round_is_committed_then_what_is_before_it_is(
    job, options, monkeypatch
):
    real, lost = archive_module.run_tasks, []

    def overtaken(session, work, items):
        monkeypatch.setattr(archive_module, "run_tasks", real)
        lost.append([item for item in items if item.partition.partition == 0][1])
        return [
            archive_module.Written(topic=TOPIC, lost="it is gone") if item is lost[0] else each
            for item, each in zip(items, real(session, work, items), strict=True)
        ]

    monkeypatch.setattr(archive_module, "run_tasks", overtaken)

    run(msgspec.structs.replace(options, topics=(TOPIC,)), job)

    first, *_ = open_topic(locate(options.lake), TOPIC).entries()
    ends = {file.partition: file.end_offset for file in first.change.add}
    assert ends == {0: lost[0].start, 1: 50}
    assert listed(options) == ALL


def test_given_records_that_always_vanish_when_archived_then_it_gives_up_with_the_reason(
    job, options, logs, monkeypatch
):
    def vanished(session, work, items):
        return [
            archive_module.Written(topic=item.partition.topic, lost="it is gone") for item in items
        ]

    monkeypatch.setattr(archive_module, "run_tasks", vanished)

    with pytest.raises(JobError, match="it is gone"):
        run(options, job)


def test_given_another_archive_that_is_faster_when_archived_then_each_record_is_there_once(
    job, options, monkeypatch
):
    real = archive_module.run_tasks

    def overtaken(session, work, items):
        monkeypatch.setattr(archive_module, "run_tasks", real)
        run(msgspec.structs.replace(options, task_bytes=5_000), job)
        return real(session, work, items)

    monkeypatch.setattr(archive_module, "run_tasks", overtaken)

    run(options, job)

    assert listed(options) == ALL
    staged = Path(options.lake, TOPIC, "_staged")
    assert list(staged.rglob("*.parquet")) == []
    assert list(verify_topic(TopicLog(LocalStore(staged.parent), TOPIC))) == []


def test_given_another_archive_that_is_ahead_when_bounds_were_read_before_then_it_is_no_loss(
    job, options, logs, monkeypatch
):
    real = DirectorySource.bounds

    def overtaken(source):
        bounds = real(source)
        monkeypatch.setattr(DirectorySource, "bounds", real)
        write_partition(logs, TOPIC, 1, RECORDS[50:60])
        run(options, job)
        return bounds

    monkeypatch.setattr(DirectorySource, "bounds", overtaken)

    result = run(options, job)

    assert result.rows() == []
    assert len(listed(options)) == 360


def test_given_a_topic_that_is_not_there_when_archived_then_it_is_said(job, options):
    with pytest.raises(OptionError, match="has no topic nothing; it has __consumer_offsets, other"):
        run(msgspec.structs.replace(options, topics=("nothing",)), job)
