"""The last stable offset: below it everything is committed, and of a decided transaction (R36)."""

from __future__ import annotations

import pytest

from broker.storage.log_config import FlushPolicy, LogConfig
from protocol.errors import OffsetOutOfRangeError
from tests.support.log_storage import LogStorage
from tests.support.producers import (
    committed_offsets,
    end_transaction,
    send,
    send_in_transaction,
)

OS = LogConfig(flush_policy=FlushPolicy.OS)


def stable(storage: LogStorage) -> int:
    storage.check_invariants()
    return storage.log.last_stable_offset


def test_given_no_transactions_when_appended_then_all_that_is_committed_is_stable():
    storage = LogStorage()
    storage.append(b"1")
    send(storage.log, 7, 0)
    assert stable(storage) == 0

    storage.flush()

    assert stable(storage) == storage.log.high_watermark == 2


def test_given_an_open_transaction_when_others_write_then_it_holds_the_stable_offset():
    """R36: the last stable offset is the high watermark or the first undecided offset."""
    storage = LogStorage(OS)
    storage.append(b"1")
    send_in_transaction(storage.log, 7, 0)
    storage.append(b"2")
    send_in_transaction(storage.log, 8, 0)
    assert (stable(storage), storage.log.high_watermark) == (1, 4)

    end_transaction(storage.log, 7, commit=True)
    assert stable(storage) == 3
    end_transaction(storage.log, 8, commit=False)

    assert stable(storage) == storage.log.high_watermark == 6
    assert storage.log.aborted_transactions(0, 6) == [(8, 3)]
    assert committed_offsets(storage.log) == [0, 1, 2]


def test_given_a_marker_that_is_not_committed_when_asked_then_its_transaction_is_undecided():
    """R36: decided is what a committed marker decides."""
    storage = LogStorage()
    send_in_transaction(storage.log, 7, 0)
    storage.flush()
    assert stable(storage) == 0
    end_transaction(storage.log, 7, commit=True)
    assert stable(storage) == 0

    storage.flush()

    assert stable(storage) == 2


def test_given_a_marker_at_the_high_watermark_when_that_moves_then_its_transaction_is_undecided():
    """R36: the marker must lie below it."""
    storage = LogStorage()
    send_in_transaction(storage.log, 7, 0)
    storage.append(b"1")
    end_transaction(storage.log, 7, commit=True)
    storage.append(b"3")
    found = []

    for offset in (1, 2, 3, 4):
        storage.log.watermark.update(offset)
        found.append(storage.log.last_stable_offset)

    assert found == [0, 0, 3, 4]


def test_given_a_marker_that_is_not_committed_when_the_log_is_cut_behind_it_then_it_is_undecided():
    """R36"""
    storage = LogStorage()
    send_in_transaction(storage.log, 7, 0)
    end_transaction(storage.log, 7, commit=True)
    storage.append(b"2")
    storage.append(b"3")

    storage.log.truncate_to(3)
    storage.log.watermark.update(1)
    undecided = storage.log.last_stable_offset
    storage.log.watermark.update(2)

    assert (undecided, storage.log.last_stable_offset) == (0, 2)


def test_given_a_log_start_inside_an_open_transaction_when_moved_then_invariants_hold():
    storage = LogStorage(OS)
    send_in_transaction(storage.log, 7, 0, count=4)
    storage.append(b"1")
    assert stable(storage) == 0

    storage.log.advance_log_start(2)

    assert stable(storage) == 2
    end_transaction(storage.log, 7, commit=True)
    assert stable(storage) == 6


def test_given_records_that_are_not_committed_when_deleted_up_to_there_then_it_is_refused():
    """DELETE_RECORDS goes up to the high watermark, that included, and not to the log end."""
    storage = LogStorage()
    storage.append(b"1", b"2")
    storage.flush()
    storage.append(b"3")

    with pytest.raises(OffsetOutOfRangeError):
        storage.log.advance_log_start(3)
    assert storage.log.log_start_offset == 0

    assert storage.log.advance_log_start(2)
    storage.check_invariants()
