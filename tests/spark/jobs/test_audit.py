"""Audit: several directories in one run, its report, and its exit codes."""

from __future__ import annotations

import shutil

import pytest

from protocol.stored.file_names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tests.support.command_line import call
from tests.support.damaged_kafka_logs import DATA, laid_out
from tests.support.spark_logs import some_records, write_partition
from tidelog.segments.audit.audit_plan import plan_audit
from tidelog.segments.audit.fault import Severity
from tidelog.segments.errors import OptionError, SegmentError
from tidelog.segments.location import locate
from tidelog.spark.jobs.audit import AuditOptions, Piece, check, run
from tidelog.spark.jobs.job import Job


def audited(spark, *paths, **options):
    job = Job("audit", lambda: spark)
    return run(AuditOptions(paths=tuple(map(str, paths)), **options), job)


@pytest.fixture
def sound(tmp_path):
    """200 records of a topic in two partitions, with indexes that say nothing."""
    for partition in (0, 1):
        for log in write_partition(tmp_path / "sound", "t", partition, some_records(100)):
            log.with_suffix(OFFSET_INDEX_SUFFIX).touch()
            log.with_suffix(TIME_INDEX_SUFFIX).touch()
    return tmp_path / "sound"


def test_given_directories_when_audited_then_all_are_counted_and_each_fault_has_its_place(
    spark, sound, tmp_path
):
    bad = laid_out("bitflip-record-sealed", "unclean", tmp_path / "bad")
    lost = laid_out("segment-missing", "unclean", tmp_path / "lost")

    result = audited(spark, sound, bad, lost, is_deep=True)

    assert not result.is_ok
    assert result.counts == {"error": 3, "note": 1}
    assert result.segments == 2 + 5 + 4
    assert result.records == 200 + (134 - 4) + (134 - 35)
    assert (result.gaps, result.gap_offsets) == (1, 35)
    files = [bad / "victim-0" / f"{27:020}.log"] + [
        lost / "victim-0" / f"{64:020}{suffix}" for suffix in (".index", ".timeindex")
    ]
    assert [(row["file"], row["position"], row["offsets"]) for row in result.rows()] == [
        (str(files[0]), 892, "36-39"),
        (str(files[1]), None, "64-98"),
        (str(files[2]), None, "64-98"),
    ]


def test_given_topics_when_audited_then_only_those(spark, sound):
    shutil.copytree(DATA / "base" / "victim-0", sound / "victim-0")

    result = audited(spark, sound, topics=("t",))

    assert (result.segments, result.records, result.is_ok) == (2, 200, True)


def test_given_a_file_that_cannot_be_read_when_checked_then_that_is_a_fault(sound):
    location = locate(sound)
    task = plan_audit(location).tasks[0]._replace(path=str(sound / "t-0"))

    number, found = check(Piece(location, task, 7), is_deep=False, gaps_are_faults=False)

    assert number == 7
    assert [(each.file, each.severity) for each in found.faults] == [
        (str(sound / "t-0"), Severity.ERROR)
    ]


def test_given_nothing_to_audit_when_asked_then_that_is_said():
    with pytest.raises(OptionError, match="name a directory"):
        AuditOptions(paths=())


def test_given_a_topic_that_is_not_there_when_audited_then_that_is_not_called_clean(sound):
    with pytest.raises(SegmentError, match=f"{sound} has no topic typo"):
        audited(None, sound, topics=("t", "typo"))


def test_given_the_command_when_clean_damaged_or_missing_then_exit_codes_0_1_and_2(
    spark, sound, tmp_path
):
    bad = laid_out("bitflip-record-active", "clean", tmp_path / "bad")

    clean = call("spark", "audit", str(sound), "--json")
    damaged = call("spark", "audit", str(bad))
    dry = call("spark", "audit", str(bad), "--dry-run")
    missing = call("spark", "audit", str(tmp_path / "nothing"))

    assert (clean.code, damaged.code, dry.code, missing.code) == (0, 1, 0, 2)
    assert clean.json["records"] == 200
    (line,) = [line for line in damaged.text.splitlines() if line.startswith("error")]
    assert line.split()[2:5] == ["149", "129-132", "damage"]
    assert "5 segments" in dry.errors
    assert "is not there" in missing.errors
