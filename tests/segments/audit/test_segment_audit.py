"""Segment audit: what it says of wounded logs, held against the wounds and `tidelog verify`."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.offline import verify_directory
from protocol.compression import Codec
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.record_batch_builder import build_batch
from protocol.stored import transaction_index
from protocol.stored.index_entries import (
    OffsetIndexEntry,
    TimeIndexEntry,
    encode_offset_index,
    encode_time_index,
)
from protocol.stored.transaction_index import AbortedTransaction
from tests.support.audits import audited, batches
from tests.support.damaged_kafka_logs import DATA, laid_out
from tests.support.spark_logs import write_checkpoint
from tidelog.segments.audit.audit_plan import plan_audit
from tidelog.segments.audit.fault import FAULTS_MAX, Fault, FaultKind, Severity
from tidelog.segments.audit.segment_audit import audit_segment
from tidelog.segments.location import locate

SEALED, ACTIVE = "00000000000000000027", "00000000000000000128"
ONE = len(build_batch([(0, 0, b"k", b"value 0")]))


def short(faults: Sequence[Fault]) -> list[tuple[str, str, str, int | None, str]]:
    return [
        (each.severity.value, Path(each.file).name, each.kind.value, each.position, each.offsets)
        for each in faults
        if each.kind is not FaultKind.GAP
    ]


TIMES = [33, 35, 47, 51, 55, 59, 63]
"""The offsets of the sealed segment's time index."""
WOUNDS = {
    "bitflip-record-sealed": [("error", f"{SEALED}.log", "damage", 892, "36-39")],
    "bitflip-record-compressed": [
        ("error", "00000000000000000064.log", "damage", 486, "72-79"),
    ],
    "bitflip-record-active": [("error", f"{ACTIVE}.log", "damage", 149, "129-132")],
    "bitflip-length-sealed": [("error", f"{SEALED}.log", "damage", 892, "36-39")],
    "bitflip-length-active": [("error", f"{ACTIVE}.log", "damage", 0, "128")],
    "bitflip-length-negative": [("error", f"{ACTIVE}.log", "damage", 149, "129-132")],
    "bitflip-offset-sealed": [
        ("error", f"{SEALED}.log", "misplaced", 892, "1060-1063"),
        ("error", f"{SEALED}.log", "disorder", 1310, "40-47"),
    ],
    "torn-body": [
        ("error", f"{ACTIVE}.log", "damage", 600, "133"),
        ("error", f"{ACTIVE}.log", "missing", 760, "133"),
        ("warning", f"{ACTIVE}.index", "index", 0, "133"),
        ("warning", f"{ACTIVE}.timeindex", "timeindex", 0, "133"),
    ],
    "torn-header": [
        ("error", f"{ACTIVE}.log", "damage", 600, "133"),
        ("error", f"{ACTIVE}.log", "missing", 607, "133"),
        ("warning", f"{ACTIVE}.index", "index", 0, "133"),
        ("warning", f"{ACTIVE}.timeindex", "timeindex", 0, "133"),
    ],
    "zeroed-page": [("error", "00000000000000000000.log", "damage", 6176, "63-143")],
    "zeroed-sector-sealed": [("error", f"{SEALED}.log", "damage", 356, "31-39")],
    "garbage-appended": [("warning", f"{ACTIVE}.log", "torn tail", 780, "134")],
    "zeros-appended": [("warning", f"{ACTIVE}.log", "torn tail", 780, "134")],
    "index-wrong": [
        ("warning", f"{SEALED}.index", "index", 8 * number, str(TIMES[number]))
        for number in range(1, 7)
    ],
    "index-unsorted": [("warning", f"{SEALED}.index", "index", 8, "")],
    "index-odd-size": [("warning", f"{SEALED}.index", "index", None, "")],
    "timeindex-wrong": [
        ("warning", f"{SEALED}.timeindex", "timeindex", 12 * number, str(offset))
        for number, offset in enumerate(TIMES)
    ],
    "index-missing": [("warning", f"{SEALED}.log", "missing", None, "")] * 2,
    "index-missing-active": [("warning", f"{ACTIVE}.log", "missing", None, "")] * 2,
    "segment-missing": [
        ("error", "00000000000000000064.index", "missing", None, "64-98"),
        ("error", "00000000000000000064.timeindex", "missing", None, "64-98"),
    ],
    "snapshot-corrupt": [("warning", "00000000000000000134.snapshot", "small file", None, "")],
    "epoch-checkpoint-garbled": [
        ("warning", "leader-epoch-checkpoint", "small file", None, ""),
    ],
    "recovery-checkpoint-garbled": [
        ("warning", "recovery-point-offset-checkpoint", "small file", None, ""),
    ],
    "epoch-checkpoint-missing": [],
    "cleaned-leftover": [
        ("note", f"{SEALED}{suffix}.cleaned", "leftover", None, "")
        for suffix in (".index", ".log", ".timeindex")
    ],
    "deleted-leftover": [
        ("note", f"{0:020}{suffix}.deleted", "leftover", None, "")
        for suffix in (".index", ".log", ".timeindex")
    ],
    "swap-leftover": [
        ("note", f"{0:020}{suffix}.swap", "leftover", None, "")
        for suffix in (".index", ".log", ".timeindex")
    ],
}
"""What a broker of Kafka's left, with one wound each: file, position and offsets of it."""


@pytest.mark.parametrize("case", WOUNDS)
def test_given_a_wounded_directory_of_kafkas_when_audited_then_just_that_wound_is_named(
    case, tmp_path
):
    directory = laid_out(case, "unclean", tmp_path / "data")

    assert short(audited(directory, is_deep=True)) == WOUNDS[case]


def test_given_a_sound_directory_of_kafkas_when_audited_then_nothing_is_found():
    assert audited(DATA / "base", is_deep=True) == []


@settings(max_examples=40, deadline=None)
@given(position=st.integers(0, 2844), value=st.integers(0, 255), cut=st.booleans())
def test_given_any_wound_in_a_log_when_audited_then_errors_are_where_verify_finds_its_first(
    position, value, cut, tmp_path_factory
):
    directory = tmp_path_factory.mktemp("wound") / "data"
    shutil.copytree(DATA / "base", directory)
    log = directory / "victim-0" / f"{SEALED}.log"
    data = bytearray(log.read_bytes())
    if cut:
        del data[position:]
    else:
        data[position] = value
    log.write_bytes(data)

    found = audited(directory)
    errors = [each for each in found if each.severity is Severity.ERROR]
    gaps = [each for each in found if each.kind is FaultKind.GAP]

    expected = [
        problem
        for finding in verify_directory(directory)
        if finding.kind == "log"
        for problem in finding.problems
        if problem.severity.value == "error"
    ]
    shutil.rmtree(directory)
    assert bool(errors) == bool(expected)
    if errors:
        assert (errors[0].position, errors[0].file) == (expected[0].position, str(log))
    elif cut and position < 2845:  # between two batches: nothing is damaged, offsets are missing
        assert len(gaps) == 1


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ((0, 1, 5, 6), [("note", "gap", 2 * ONE, "2-4")]),
        ((0, 1, 1, 2), [("error", "overlap", 2 * ONE, "1")]),
        ((0, 5, 3, 4), [("note", "gap", ONE, "1-4"), ("error", "disorder", 2 * ONE, "3")]),
    ],
)
def test_given_offsets_with_a_gap_overlap_or_disorder_when_audited_then_they_are_told_apart(
    offsets, expected, tmp_path
):
    batches(tmp_path / "t-0", *offsets)

    found = audited(tmp_path)

    assert [(f.severity.value, f.kind.value, f.position, f.offsets) for f in found] == expected


def test_given_a_gap_when_nothing_was_compacted_then_it_is_an_error(tmp_path):
    batches(tmp_path / "t-0", 0, 2)

    (fault,) = audited(tmp_path, gaps=True)

    assert (fault.severity, fault.offsets) == (Severity.ERROR, "1")


def test_given_a_log_that_begins_later_when_audited_then_nothing_is_missing_before(tmp_path):
    batches(tmp_path / "t-0", 5, 6)
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {("t", 0): 4})

    (fault,) = audited(tmp_path)

    assert (fault.kind, fault.offsets) == (FaultKind.GAP, "4")


def test_given_neighbours_with_headers_that_cannot_be_when_audited_then_they_are_one_stretch(
    tmp_path,
):
    log = batches(tmp_path / "t-0", 0, 1, 2, 3)
    data = bytearray(log.read_bytes())
    for number in (1, 2):
        data[number * ONE + 57] = 0xFF
    log.write_bytes(data)

    (fault,) = audited(tmp_path)

    assert (fault.position, fault.size_bytes, fault.offsets) == (ONE, 2 * ONE, "1-2")


def test_given_many_faults_of_a_kind_when_audited_then_those_beyond_a_limit_are_counted(tmp_path):
    batches(tmp_path / "t-0", *range(0, 2 * FAULTS_MAX + 20, 2))

    *named, last = audited(tmp_path)

    assert len(named) == FAULTS_MAX
    assert last.text == "and 9 more of this kind"


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_given_a_record_count_that_is_a_lie_when_audited_then_only_decoding_tells(codec, tmp_path):
    from protocol.checksum import crc32c

    log = batches(tmp_path / "t-0", 0, 1, 2, codec=codec)
    data = bytearray(log.read_bytes())
    begin = len(data) // 3
    data[begin + 57 : begin + 61] = bytes(4)
    end = begin + 12 + int.from_bytes(data[begin + 8 : begin + 12], "big")
    data[begin + 17 : begin + 21] = crc32c(bytes(data[begin + 21 : end])).to_bytes(4, "big")
    log.write_bytes(data)

    assert audited(tmp_path) == []
    (fault,) = audited(tmp_path, is_deep=True)
    assert (fault.kind, fault.position, fault.offsets) == (FaultKind.RECORDS, begin, "1")


def test_given_indexes_past_the_log_when_audited_then_each_entry_is_named(tmp_path):
    log = batches(tmp_path / "t-0", 0, 1, 2)
    entries = [OffsetIndexEntry(1, ONE), OffsetIndexEntry(9, 2 * ONE), OffsetIndexEntry(11, 900)]
    log.with_suffix(".index").write_bytes(encode_offset_index(entries, 0))
    aborted = [AbortedTransaction(7, 0, 1, 0), AbortedTransaction(7, 1, 8, 0)]
    log.with_suffix(".txnindex").write_bytes(transaction_index.encode(aborted))

    found = audited(tmp_path)

    assert [(each.kind.value, each.position, each.offsets) for each in found] == [
        ("index", 16, "11"),
        ("index", 8, "9"),
        ("txnindex", 0, "0-1"),
        ("txnindex", 34, "1-8"),
    ]


def test_given_a_time_index_with_too_small_a_time_when_audited_then_that_entry_is_named(tmp_path):
    log = batches(tmp_path / "t-0")
    times = [100, 300, 200, 250]
    log.write_bytes(
        b"".join(build_batch([(n, t, b"k", b"v")], base_offset=n) for n, t in enumerate(times))
    )
    entries = [(100, 0), (250, 1), (300, 2), (400, 4)]
    log.with_suffix(".timeindex").write_bytes(
        encode_time_index([TimeIndexEntry(*entry) for entry in entries], 0)
    )

    found = audited(tmp_path)

    assert [(each.position, each.offsets) for each in found] == [(12, "1"), (36, "4")]
    assert "is below timestamp 300, which is in the log" in found[0].text
    assert "is past the log's last offset 3" in found[1].text


def test_given_a_segment_that_retention_took_when_audited_then_that_is_a_note(tmp_path):
    log = batches(tmp_path / "t-0", 0)
    plan = plan_audit(locate(tmp_path))
    log.unlink()

    found = audit_segment(plan.location, plan.tasks[0])

    assert [each.severity for each in found.faults] == [Severity.NOTE]


def test_given_a_log_that_grows_when_audited_then_what_it_was_not_listed_with_is_no_fault(tmp_path):
    log = batches(tmp_path / "t-0", 0, 1, 2)
    plan = plan_audit(locate(tmp_path))
    task = plan.tasks[0]._replace(size_bytes=ONE + 20)
    entries = [OffsetIndexEntry(1, ONE), OffsetIndexEntry(2, 2 * ONE)]
    log.with_suffix(".index").write_bytes(encode_offset_index(entries, 0))
    log.with_suffix(".timeindex").write_bytes(encode_time_index([TimeIndexEntry(9, 2)], 0))

    found = audit_segment(plan.location, task)

    assert (found.faults, found.last_offset) == ([], 0)


def test_given_an_index_entry_with_a_later_offset_when_audited_then_it_is_named(tmp_path):
    log = batches(tmp_path / "t-0", 0, 1, 2, 3)
    entries = [OffsetIndexEntry(2, ONE), OffsetIndexEntry(3, 2 * ONE)]
    log.with_suffix(".index").write_bytes(encode_offset_index(entries, 0))

    (fault,) = audited(tmp_path)

    assert (fault.kind, fault.position, fault.offsets) == (FaultKind.INDEX, 0, "2")
    assert "is not below offset 2, where the next entry points" in fault.text


@pytest.mark.parametrize("is_commit", [False, True])
def test_given_a_transaction_index_when_audited_then_its_entries_need_abort_markers(
    tmp_path, is_commit
):
    log = batches(tmp_path / "t-0", 0)
    marker = EndTransactionMarker(is_commit, 0, 0)
    end = build_marker_batch(marker, producer_id=7, producer_epoch=0, base_offset=1)
    log.write_bytes(log.read_bytes() + end)
    aborted = [AbortedTransaction(7, 0, 1, 2)]
    log.with_suffix(".txnindex").write_bytes(transaction_index.encode(aborted))

    found = audited(tmp_path)

    assert [(each.kind.value, each.position, each.offsets) for each in found] == (
        [("txnindex", 0, "0-1")] if is_commit else []
    )
