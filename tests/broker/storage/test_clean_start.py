"""What a start after an orderly stop reads: the same few bytes, however much was flushed before."""

from __future__ import annotations

import pytest

from broker.storage.log_config import LogConfig
from tests.support.log_storage import LogStorage, records_of

SEALED_SEGMENT = "00000000000000000000"
CONFIG = LogConfig(segment_bytes=7_000, index_interval_bytes=500, segment_index_bytes=4_096)
"""A hundred batches to a segment, of which an index has one in eight."""


def storage_with(batches: int) -> LogStorage:
    storage = LogStorage(CONFIG)
    for number in range(batches):
        storage.append(b"%d" % (number % 10))
    storage.flush()
    return storage


def restarted(storage: LogStorage) -> list:
    """Stop in order, start again; return the disk's operations of the start."""
    storage.directory.close()
    before = len(storage.disk.operations)
    storage.open()
    return storage.disk.operations[before:]


def bytes_read(operations: list) -> int:
    return sum(each.size for each in operations if each.name == "read")


def test_given_ten_times_the_data_when_started_cleanly_then_as_much_is_read():
    few = restarted(storage_with(250))

    many = restarted(storage_with(2_550))

    assert bytes_read(many) == bytes_read(few)
    assert bytes_read(many) < 40_000  # a window or two; the log has 180,000


def test_given_sealed_segments_when_started_cleanly_then_their_files_are_not_opened():
    operations = restarted(storage_with(550))

    touched = {each.path.name for each in operations if each.name in ("open", "read")}

    assert not [each for each in touched if each.startswith(SEALED_SEGMENT)]
    assert "00000000000000000500.log" in touched  # the active one's tail


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [None, b"", b"abc", b"\xff" * 24, bytes(480)])
def test_given_a_bad_index_of_a_sealed_segment_when_started_cleanly_then_look_ups_are_right(
    suffix, content
):
    """Found when it is used, not when it is opened (R17)."""
    storage = storage_with(250)
    storage.directory.close()
    path = storage.path / f"{SEALED_SEGMENT}{suffix}"
    if content is None:
        storage.disk.unlink(path)
    else:
        file = storage.disk.open(path)
        file.truncate(0)
        file.write([content], 0)
        file.close()

    storage.open()

    assert [offset for offset, _ in storage.records()] == list(range(250))
    for offset in range(0, 100, 7):
        assert records_of(storage.log.read(offset, 1)) == [(offset, b"%d" % (offset % 10))]
    assert storage.log.offset_for_timestamp(storage.clock.now_ms()) == (storage.clock.now_ms(), 0)
