"""The 27 wounded Kafka directories: each starts, serves no wrong record and every sound one.

The table in docs/durability.md has a row for each, and Kafka's own outcome beside ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.storage.quarantine import REPORT_SUFFIX
from tests.support.damaged_kafka_logs import (
    CASES,
    DATA,
    RECOVERY_POINTS,
    STARTS,
    Run,
    Seen,
    laid_out,
    observe,
)

FOUND_BEFORE = "damage in acknowledged records, found before; verify the partition"
FOUND_BY_START = "damage in acknowledged records: nothing was cut; verify the partition"
FOUND_BY_READ = "damage found: reads of it answer CORRUPT_MESSAGE; verify the partition"
CUT = "torn tail cut"
REBUILT = "rebuilding indexes"


class Row(NamedTuple):
    """What is expected of one case, whichever way it is started."""

    event: str = ""
    """What the broker's log says of it; "" where it depends on the start."""
    lost: tuple[Run, ...] = ()
    """Refused with CORRUPT_MESSAGE; all others are served."""
    log_start: int = 0
    gone: tuple[Run, ...] = ()
    """Not there any more, and rightly so."""


ROWS = {
    "bitflip-record-sealed": Row(lost=((36, 39),)),
    "bitflip-record-compressed": Row(lost=((72, 79),)),
    "bitflip-record-active": Row(lost=((129, 132),)),
    "bitflip-length-sealed": Row(lost=((36, 39),)),
    "bitflip-length-active": Row(lost=((128, 128),)),
    "bitflip-length-negative": Row(lost=((129, 132),)),
    "bitflip-offset-sealed": Row(lost=((36, 39),)),
    "torn-body": Row(lost=((133, 133),)),
    "torn-header": Row(lost=((133, 133),)),
    "zeroed-page": Row(lost=((63, 143),)),
    "zeroed-sector-sealed": Row(lost=((31, 39),)),
    "garbage-appended": Row(CUT),
    "zeros-appended": Row(CUT),
    "index-wrong": Row(),
    "index-unsorted": Row(),
    "index-odd-size": Row(),
    "timeindex-wrong": Row(),
    "index-missing": Row(),
    "index-missing-active": Row(),
    "segment-missing": Row(FOUND_BY_START, lost=((64, 98),)),
    "swap-leftover": Row("swap file finished", gone=((2, 3),)),
    "cleaned-leftover": Row("leftovers removed"),
    "deleted-leftover": Row("leftovers removed", log_start=27),
    "snapshot-corrupt": Row(),
    "epoch-checkpoint-garbled": Row("leader epochs are not readable"),
    "epoch-checkpoint-missing": Row(),
    "recovery-checkpoint-garbled": Row("checkpoint ignored: it is not readable"),
}
TORN = ("torn-body", "torn-header")
INDEXES = tuple(name for name in ROWS if name.startswith(("index", "timeindex")))


def around(holes: list[Run], first: int, end: int) -> list[Run]:
    """The runs of offsets between the holes."""
    found = []
    for start, last in holes:
        found.append((first, start - 1))
        first = last + 1
    return [run for run in (*found, (first, end - 1)) if run[0] <= run[1]]


def test_given_the_cases_when_listed_then_each_has_a_row():
    assert list(ROWS) == sorted(ROWS, key=list(CASES).index) == list(CASES)
    assert len(ROWS) == 27


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("case", CASES)
def test_given_a_wounded_kafka_log_when_started_then_all_that_is_sound_is_served_and_nothing_else(
    case: str, start: str, tmp_path: Path
):
    """R12, R23, R31, R32: read from the start, at each offset, at each record's time."""
    row, end = ROWS[case], RECOVERY_POINTS[CASES[case]["partition"]]
    lost = list(row.lost)
    if case in TORN and start == "unclean-from-0":  # nothing says that it was ever flushed
        lost, end = [], 133
    directory = laid_out(case, start, tmp_path)

    seen = observe(directory, case)
    again = observe(directory, case, seek_first=True)

    assert seen.wrong == again.wrong == []
    assert (seen.log_start, seen.log_end) == (row.log_start, end)
    assert seen.served == around([*lost, *row.gone], row.log_start, end)
    assert seen.refused == seen.damage == lost
    holes = {("seek", at, last + 1) for first, last in row.gone for at in range(first, last + 1)}
    assert set(seen.missed) == set(again.missed) == holes
    assert (again.served, again.refused, again.damage) == (seen.served, seen.refused, lost)
    assert (again.log_start, again.log_end) == (seen.log_start, seen.log_end)
    expect_reported(case, start, seen, again)


def expect_reported(case: str, start: str, seen: Seen, again: Seen) -> None:
    """The wound is named by the start or by the first read, and quarantine does not pile up."""
    row = ROWS[case]
    if row.event:
        assert row.event in seen.events
    elif seen.damage:
        assert seen.events & {FOUND_BY_START, FOUND_BY_READ}
        assert again.events & {FOUND_BY_START, FOUND_BEFORE}  # until it is repaired
    elif case in TORN:
        assert CUT in seen.events
    elif case in INDEXES and start != "unclean-from-0":  # there every index is built anew
        assert REBUILT in seen.events or case == "index-missing-active"
    elif case == "snapshot-corrupt" and start == "clean":
        assert "producer snapshot ignored" in seen.events
    kept = [[name for name in each.files if "quarantine" in name] for each in (seen, again)]
    assert kept[0] == kept[1]
    assert len([name for name in kept[0] if name.endswith(REPORT_SUFFIX)]) == len(seen.damage)


@pytest.mark.parametrize("case", [name for name, row in ROWS.items() if row.lost])
def test_given_a_wound_when_found_then_the_quarantine_has_its_bytes_and_the_log_keeps_them(
    case: str, tmp_path: Path
):
    directory = laid_out(case, "unclean", tmp_path)
    partition = directory / CASES[case]["partition"]
    before = {path.name: path.read_bytes() for path in partition.glob("*.log")}

    observe(directory, case)

    (path,) = partition.glob(f"*{REPORT_SUFFIX}")
    report = json.loads(path.read_text())
    assert (report["first_offset"], report["next_offset"] - 1) == ROWS[case].lost[0]
    assert report["partition"] == CASES[case]["partition"]
    assert report["cause"] == "damage"
    bad = before[report["file"]][report["position"] : report["end_position"]]
    if bad:
        assert path.with_suffix("").read_bytes() == bad
    assert {name: (partition / name).read_bytes() for name in before} == before


def test_given_the_table_in_the_docs_when_read_then_it_has_each_case_and_names_this_test():
    text = (Path(__file__).resolve().parents[3] / "docs" / "durability.md").read_text()

    assert all(f"| `{case}` |" in text for case in CASES)
    assert Path(__file__).name in text


def test_given_the_data_when_looked_at_then_each_case_changes_something():
    for name, case in CASES.items():
        changed = list((DATA / "cases" / name).rglob("*.*")) or (DATA / "cases" / name).exists()
        assert changed or case["removed"], name
