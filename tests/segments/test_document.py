"""docs/segments.md: its lines of Python do what it says."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from protocol.record_batch_builder import build_batch
from tests.support.segment_logs import write_partition
from tidelog.segments.columns import HEADERS
from tidelog.segments.read_options import ReadOptions

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "segments.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
PLAIN, PANDAS, POLARS, DUCKDB, SPLITS, BACK = BLOCKS


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run blocks in a directory that has a data directory with seven records of `logs`."""
    monkeypatch.chdir(tmp_path)
    rows = [(n, 10**12 + n, b"k", b"v%d" % n) for n in range(7)]
    for name in ("logs-0", "other-0"):
        write_partition(tmp_path / "tidelog-data" / name, [[build_batch(rows)]])

    def run_blocks(*blocks: str) -> dict[str, Any]:
        names: dict[str, Any] = {}
        for block in blocks:
            exec(block, names)
        return names

    return run_blocks


def test_given_the_lines_for_arrow_when_run_then_records(run):
    names = run(PLAIN)

    assert names["table"].num_rows == 7
    assert [batch.num_columns for batch in names["batches"]] == [2]


def test_given_the_line_for_polars_when_run_then_a_frame(run):
    frame = run(PLAIN, POLARS)["frame"]

    assert frame.shape == (7, 7)
    assert frame["value"].to_list() == [b"v%d" % n for n in range(7)]


def test_given_the_line_for_duckdb_when_run_then_it_counts(run):
    assert run(PLAIN, DUCKDB)["count"] == [(7,)]


def test_given_the_line_for_pandas_when_run_then_nothing_but_pandas_is_missing(run):
    if find_spec("pandas") is None:
        with pytest.raises(ModuleNotFoundError, match="pandas"):
            run(PLAIN, PANDAS)
    else:
        assert run(PLAIN, PANDAS)["frame"].shape == (7, 7)


def test_given_the_lines_for_splits_when_run_then_all_records(run):
    assert run(SPLITS)["rows"] == 14


def test_given_the_lines_for_the_way_back_when_run_then_a_log_of_the_same_records(run):
    before = run(PLAIN, BACK)["table"]
    after = run(PLAIN.replace('"./tidelog-data", topics=["logs"]', '"00000000000000000000.log"'))[
        "table"
    ]

    for name in ("offset", "timestamp", "key", "value"):
        assert after.column(name) == before.column(name)


def test_given_options_and_columns_when_documented_then_all_of_them():
    documented = set(re.findall(r"`(\w+)`", DOCUMENT))

    named = {*ReadOptions.__struct_fields__} - {"start_timestamp_ms", "end_timestamp_ms"}
    assert named | {*ReadOptions().columns, HEADERS} <= documented
