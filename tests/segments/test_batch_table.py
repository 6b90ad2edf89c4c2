"""BatchTable: the headers of many batches at once, as `protocol` reads them one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import parse_header
from protocol.record_batch_builder import build_batch
from tidelog.segments import batch_table, kernel_numba, kernel_numpy
from tidelog.segments.batch_table import walk


@pytest.fixture(params=[kernel_numba, kernel_numpy], autouse=True)
def any_kernel(request, monkeypatch):
    monkeypatch.setattr(batch_table, "COMPILED_BYTES_MIN", 0)
    monkeypatch.setattr(batch_table, "chosen_kernel", lambda: request.param)


def three() -> list[bytes]:
    return [
        build_batch([(n, 100 + n, b"k", bytes(9 * n))], base_offset=n, leader_epoch=n)
        for n in range(3)
    ]


def test_given_batches_when_walked_then_every_field_is_that_of_protocols_header():
    data = b"".join(three())

    walked = walk(data)

    assert (walked.end_position, walked.fault, len(walked.table)) == (len(data), None, 3)
    for row in walked.table:
        header = parse_header(data, int(row["position"]))
        assert int(row["size_bytes"]) == header.size_bytes
        assert int(row["last_offset"]) == header.last_offset
        for name in (
            "base_offset", "record_count", "leader_epoch", "attributes", "crc", "base_timestamp",
            "max_timestamp", "producer_id", "producer_epoch", "base_sequence",
        ):  # fmt: skip
            assert int(row[name]) == getattr(header, name), name


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 300))
def test_given_a_cut_end_when_walked_then_only_whole_batches_and_no_fault(cut):
    batches = three()
    data = b"".join(batches)[:cut]
    whole = 0
    while whole < 3 and len(b"".join(batches[: whole + 1])) <= len(data):
        whole += 1

    walked = walk(data)

    assert len(walked.table) == whole
    assert walked.end_position == len(b"".join(batches[:whole]))
    assert walked.fault is None


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (16, b"\x01", "magic 1"),
        (8, b"\x00\x00\x00\x05", "batch length of 5"),
        (23, b"\xff\xff\xff\xff", "header cannot be"),
        (57, b"\x7f\xff\xff\xff", "header cannot be"),
        (0, b"\x00" * 8, "header cannot be"),
        (21, b"\x00\x07", "header cannot be"),
        (0, (2**63 - 1).to_bytes(8, "big"), "header cannot be"),
    ],
)
def test_given_a_header_that_cannot_be_when_walked_then_it_ends_before_it_and_says_why(
    position, value, reason
):
    first, second, third = three()
    wrong = bytearray(second)
    wrong[position : position + len(value)] = value

    walked = walk(first + bytes(wrong) + third)

    assert walked.table["base_offset"].tolist() == [0]
    assert walked.end_position == len(first)
    assert walked.fault is not None
    assert reason in walked.fault


def test_given_offsets_beyond_int64_when_walked_then_they_are_no_header():
    batch = bytearray(build_batch([(n, 5, b"k", b"v") for n in range(3)]))
    batch[:8] = (2**63 - 2).to_bytes(8, "big")

    assert walk(bytes(batch)).fault == "its header cannot be"
