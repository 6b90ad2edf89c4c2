"""Compaction: what is committed in the place of files is just what they hold."""

from __future__ import annotations

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.lake.test_log import ENDS, FILE_BYTES, archive
from tests.support.lakes import TOPIC, change_of, listed
from tidelog.lake.compaction import merge, plan_merges
from tidelog.lake.errors import ConflictError, LakeDamagedError
from tidelog.lake.log import TopicLog
from tidelog.lake.store import LocalStore

ALL = [(partition, offset) for partition in (0, 1) for offset in range(ENDS[-1])]


@pytest.fixture
def log(tmp_path):
    store = LocalStore(tmp_path)
    archive(store, "writer")
    log = TopicLog(store, TOPIC)
    log.recover()
    return log


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": 99}, "does not hold what the removed files hold"),
        ({"end_offset": 101}, "would cover more than what is removed"),
        ({"end_offset": 70}, "does not hold what the removed files hold|takes no record away"),
    ],
)
def test_given_a_merge_that_holds_something_else_when_committed_then_it_is_refused(
    log, wrong, message
):
    (first, _) = plan_merges(log.state, FILE_BYTES)
    made = msgspec.structs.replace(merge(log.store, "merger", first), **wrong)

    with pytest.raises(ConflictError, match=message):
        log.commit(change_of("merge", [made], [file.path for file in first.files]))

    assert listed(log.store.root) == ALL


def test_given_a_file_that_lost_records_when_merged_then_it_is_damage(log):
    (first, _) = plan_merges(log.state, FILE_BYTES)
    path = log.store.root / first.files[1].path
    pq.write_table(pq.ParquetFile(path).read().slice(1), path)

    with pytest.raises(LakeDamagedError, match=r"has 29 records; 30 were committed"):
        merge(log.store, "merger", first)
