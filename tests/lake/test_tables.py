"""Tables of Delta Lake and Iceberg over a lake, read back by their own libraries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.lake.test_log import archive, compact
from tests.support.lakes import TOPIC, change_of, stage
from tidelog.lake import delta, iceberg
from tidelog.lake.delta import APPLICATION, update_delta
from tidelog.lake.entry import Change, Gap
from tidelog.lake.iceberg import SEQUENCE_PROPERTY, lake_catalog, update_iceberg
from tidelog.lake.log import TopicLog
from tidelog.lake.store import LocalStore
from tidelog.segments.location import locate

EVERY = [(partition, offset) for partition in (0, 1) for offset in range(100)]


def pairs(table):
    columns = table.select(["partition", "offset"]).to_pydict()
    return sorted(zip(columns["partition"], columns["offset"], strict=True))


def delta_pairs(root: Path):
    return pairs(DeltaTable(root).to_pyarrow_table())


def data_changes(lake: Path, version: int) -> set[bool]:
    """Return what a version of the Delta table tells those who follow its changes."""
    lines = (lake / TOPIC / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    actions = [action for line in lines for action in json.loads(line).items()]
    return {each["dataChange"] for kind, each in actions if kind in ("add", "remove")}


def iceberg_pairs(lake: Path):
    return pairs(lake_catalog(locate(lake)).load_table(("tidelog", TOPIC)).scan().to_arrow())


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


def test_given_commits_and_a_compaction_when_delta_is_updated_then_it_has_the_same(lake):
    store = LocalStore(lake / TOPIC)
    log = TopicLog(store, TOPIC)
    log.commit(change_of("first", [*stage(store, 0, 0, 5), *stage(store, 1, 0, 5)]))
    update_delta(log)
    log.commit(change_of("second", [*stage(store, 0, 5, 9), *stage(store, 1, 5, 6)]))
    update_delta(log)
    before = delta_pairs(lake / TOPIC)
    compact(store, "compaction")

    sequences = [update_delta(log), update_delta(log)]  # the second time nothing is left to do

    expected = [*((0, offset) for offset in range(9)), *((1, offset) for offset in range(6))]
    assert before == expected
    assert delta_pairs(lake / TOPIC) == expected
    table = DeltaTable(lake / TOPIC)
    assert sequences == [2, 2]
    assert (table.transaction_version(APPLICATION), table.version()) == (2, 2)
    assert [data_changes(lake, version) for version in range(3)] == [{True}, {True}, {False}]
    assert len(table.file_uris()) == 2


def test_given_a_table_left_behind_when_updated_then_it_has_all(lake):
    archive(LocalStore(lake / TOPIC), "writer")
    compact(LocalStore(lake / TOPIC), "compaction")
    log = TopicLog(LocalStore(lake / TOPIC), TOPIC)

    update_delta(log)
    update_iceberg(log, locate(lake))

    assert delta_pairs(lake / TOPIC) == EVERY
    assert iceberg_pairs(lake) == EVERY


def test_given_commits_and_a_compaction_when_iceberg_is_updated_then_it_has_the_same(
    lake,
):
    store = LocalStore(lake / TOPIC)
    log = TopicLog(store, TOPIC)
    gap = Gap(partition=2, start_offset=0, end_offset=3, reason="lost")
    log.commit(Change(id="gap", gaps=(gap,)))
    update_iceberg(log, locate(lake))
    log.commit(change_of("first", stage(store, 0, 0, 5)))
    update_iceberg(log, locate(lake))
    log.commit(change_of("second", stage(store, 0, 5, 9)))
    update_iceberg(log, locate(lake))
    before = iceberg_pairs(lake)
    compact(store, "compaction")

    sequences = [update_iceberg(log, locate(lake)), update_iceberg(log, locate(lake))]

    assert before == [(0, offset) for offset in range(9)]
    assert iceberg_pairs(lake) == before
    table = lake_catalog(locate(lake)).load_table(("tidelog", TOPIC))
    assert sequences == [3, 3]
    assert [
        snapshot.summary.additional_properties[SEQUENCE_PROPERTY] for snapshot in table.snapshots()
    ] == ["0", "1", "2", "3"]
    assert len(list(table.scan().plan_files())) == 1
    rows = table.scan(row_filter="offset == 3").to_arrow().to_pylist()
    assert rows[0]["headers"] == [{"key": "n", "value": b"3"}]


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_given_another_writer_that_is_faster_when_updated_then_no_file_is_there_twice(
    lake, monkeypatch, table_format
):
    store = LocalStore(lake / TOPIC)
    log = TopicLog(store, TOPIC)
    module, found, update = {
        "delta": (delta, lambda: delta_pairs(lake / TOPIC), lambda: update_delta(log)),
        "iceberg": (
            iceberg,
            lambda: iceberg_pairs(lake),
            lambda: update_iceberg(log, locate(lake)),
        ),
    }[table_format]
    log.commit(change_of("first", stage(store, 0, 0, 5)))
    update()
    log.commit(change_of("second", stage(store, 0, 5, 9)))
    real = module._opened

    def overtaken(*arguments):
        table = real(*arguments)
        monkeypatch.setattr(module, "_opened", real)
        update()
        return table

    monkeypatch.setattr(module, "_opened", overtaken)
    update()

    assert found() == [(0, offset) for offset in range(9)]
