"""Every cell of docs/native-protocol.md's table of requests against error codes, and no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.native import requests, topic_changes, transactions
from protocol.native.request_types import RequestType
from tests.support import fetch_error_cells, produce_error_cells, topic_error_cells
from tests.support.error_cells import (
    GOOD,
    PRODUCING,
    Cell,
    Cells,
    fetch_error,
    produce_error,
    send_produce,
)
from tests.support.fake_disk import FakeDisk
from tests.support.native_broker import NativeBroker

DOCUMENT = Path(__file__).parents[3] / "docs" / "native-protocol.md"

CELLS = Cells()
for part in (produce_error_cells, fetch_error_cells, topic_error_cells):
    for (request_type, code), runs in part.CELLS.by_code.items():
        for name, run in runs:
            CELLS.add(request_type, code, name, run)


# --- a directory that is missing ------------------------------------------------------------------


def with_missing_directory(run: Callable[[NativeBroker], int], registry: Path) -> int:
    """Run where partition 1 of `logs` lies in a directory that was not mounted."""
    disk = FakeDisk()
    directories = {"data_dirs": ("/data", "/other"), "registry": registry}
    with NativeBroker(disk=disk, **directories) as broker:  # type: ignore[arg-type]
        broker.create_topic("logs", 2)
    disk.rename(Path("/other"), Path("/elsewhere"))
    with NativeBroker(disk=disk, allow_missing_dirs=("/other",), **directories) as broker:  # type: ignore[arg-type]
        return run(broker)


MISSING: dict[RequestType, Callable[[NativeBroker], int]] = {
    **{
        each: lambda broker, t=each: produce_error(
            t, send_produce(broker, t, "logs", GOOD, partition=1)
        )
        for each in PRODUCING
    },
    **{
        each: lambda broker, t=each: fetch_error(broker, t, partition=1)
        for each in (RequestType.FETCH, RequestType.MULTIFETCH)
    },
    RequestType.OFFSETS: lambda broker: broker.send(
        requests.encode_offsets("logs", 1, -1, 1)
    ).offsets[0],
    RequestType.TOPICS: lambda broker: (
        broker.send(requests.encode_topics(["logs"])).topics[1][0].partitions[1].error
    ),
    RequestType.TRANSACTIONS: lambda broker: (
        broker.send(transactions.encode_transactions("logs", 1, 0, 1)).transactions.error
    ),
    RequestType.DELETE_RECORDS: lambda broker: (
        broker.send(topic_changes.encode_delete_records("logs", [(1, -1)])).deleted[1][0].error
    ),
}


# --- more entries than a request may have ---------------------------------------------------------


def too_many(request_type: RequestType) -> int:
    """Two are one too many here; the outer error tells, and nothing was carried out."""
    with NativeBroker(settings={"limits.request_entries_max": 1}) as broker:
        broker.create_topic("logs")
        if request_type is RequestType.MULTIPRODUCE:
            sent = broker.send(*requests.encode_multi_produce(1, 500, [("logs", 0, 2, GOOD)] * 2))
            assert sent.frame[2:] == b"\0\0", "no entries follow"
        elif request_type is RequestType.MULTIFETCH:
            entries = [("logs", 0, 0, 100)] * 2
            sent = broker.send(requests.encode_multi_fetch(1_000, 1, 1_000, 2, entries))
            assert sent.multi_fetched == (42, [])
        elif request_type is RequestType.DELETE_RECORDS:
            sent = broker.send(topic_changes.encode_delete_records("logs", [(0, -1)] * 2))
            assert sent.deleted == (42, [])
        else:
            sent = broker.send(requests.encode_topics(["logs", "logs"]))
            assert sent.topics == (42, [])
        assert broker.partition("logs").log.log_end_offset == 0
        assert broker.requests(request_type.name.lower()).errors == {42: 1}
        return sent.error


for asking in (
    RequestType.MULTIPRODUCE,
    RequestType.MULTIFETCH,
    RequestType.TOPICS,
    RequestType.DELETE_RECORDS,
):
    CELLS.add(asking, ErrorCode.INVALID_REQUEST, "entries", lambda t=asking: too_many(t))


# --- the tests ------------------------------------------------------------------------------------


def documented_cells() -> set[tuple[RequestType, ErrorCode]]:
    """Read the table: its header names the requests, its rows begin with the code."""
    text = DOCUMENT.read_text()
    (header,) = re.findall(r"^\| code \|.*$", text, re.MULTILINE)
    names = [name.strip() for name in header.strip("|").split("|")][3:]
    cells = set()
    for row in re.findall(r"^\| *\d+ \| [A-Z_]+ \|.*$", text, re.MULTILINE):
        fields = [field.strip() for field in row.strip().strip("|").split("|")]
        if len(fields) != 3 + len(names):
            continue  # another table
        for name, mark in zip(names, fields[3:], strict=True):
            if mark:
                cells.add((RequestType[name], ErrorCode(int(fields[0]))))
    return cells


def test_given_the_document_when_compared_then_each_of_its_cells_has_a_test_and_no_other_does():
    tested = set(CELLS.by_code) | {(each, ErrorCode.KAFKA_STORAGE_ERROR) for each in MISSING}

    assert tested == documented_cells()
    assert len(tested) > 50


@pytest.mark.parametrize(
    ("request_type", "code", "run"),
    [
        pytest.param(request_type, code, run, id=f"{request_type.name}-{code.value}-{name}")
        for (request_type, code), cases in CELLS.by_code.items()
        for name, run in cases
    ],
)
def test_given_a_cell_of_the_table_when_brought_about_then_its_code_is_answered(
    request_type: RequestType, code: ErrorCode, run: Cell
):
    assert run() == code


@pytest.mark.parametrize("request_type", list(MISSING), ids=lambda each: each.name)
def test_given_a_missing_directory_when_asked_for_its_partition_then_56_and_never_empty(
    request_type: RequestType, tmp_path: Path
):
    error = with_missing_directory(MISSING[request_type], tmp_path / "registry.sqlite")

    assert error == ErrorCode.KAFKA_STORAGE_ERROR
