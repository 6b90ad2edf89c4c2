"""What cannot be archived, said before any work."""

from __future__ import annotations

import pytest

from tests.support.spark_logs import some_records, write_partition
from tidelog.lake.errors import LakeError
from tidelog.segments.errors import OptionError
from tidelog.spark.jobs.archive import ArchiveOptions, run
from tidelog.spark.jobs.job import Job


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "name a data directory or a broker"),
        ({"path": "a", "broker": "b"}, "not from both"),
        ({"path": "a", "on_corrupt": "tag"}, "fail or skip"),
        ({"path": "a", "task_bytes": 0}, "task_bytes is 0"),
    ],
)
def test_given_options_that_cannot_be_when_made_then_one_sentence(wrong, message):
    with pytest.raises(OptionError, match=message):
        ArchiveOptions(lake="lake", **wrong)


def test_given_a_lake_that_cannot_be_made_when_archived_then_it_is_said_before_spark_starts(
    tmp_path,
):
    write_partition(tmp_path / "logs", "web-logs", 0, some_records(3))
    (tmp_path / "file").write_bytes(b"")
    lake = tmp_path / "file" / "lake"

    with pytest.raises(LakeError, match=f"cannot make the lake {lake}: "):
        run(
            ArchiveOptions(lake=str(lake), path=str(tmp_path / "logs")),
            Job("archive", lambda: pytest.fail("Spark was started")),
        )
