"""Leader epochs: where each begins, through append, cut, retention, recovery and damage."""

from __future__ import annotations

import pytest

from broker.storage.log_config import LogConfig
from tests.support.log_storage import LogStorage

SMALL = LogConfig(segment_bytes=280, index_interval_bytes=100, segment_index_bytes=240)
FILE = "leader-epoch-checkpoint"


def with_epochs(config: LogConfig = SMALL) -> LogStorage:
    """Epoch 0 from offset 0, 3 from 5, 4 from 6, 9 from 14; ends at 20."""
    storage = LogStorage(config)
    begins = {5: 3, 6: 4, 14: 9}
    for offset in range(20):
        if offset in begins:
            storage.log.begin_leader_epoch(begins[offset])
        storage.append(b"%d" % offset)
    storage.flush()
    return storage


ALL = [(0, 0), (3, 5), (4, 6), (9, 14)]


def in_file(storage: LogStorage) -> list[tuple[int, int]]:
    lines = storage.disk.read_file(storage.path / FILE).decode().splitlines()
    assert lines[0] == "0"
    assert int(lines[1]) == len(lines) - 2
    return [(int(epoch), int(start)) for epoch, start in map(str.split, lines[2:])]


def put(storage: LogStorage, data: bytes) -> None:
    file = storage.disk.open(storage.path / FILE, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.sync()
    file.close()


def text(*entries: tuple[int, int]) -> bytes:
    lines = ["0", str(len(entries)), *(f"{epoch} {start}" for epoch, start in entries)]
    return "".join(f"{line}\n" for line in lines).encode()


def test_given_epochs_that_begin_when_appended_then_each_is_noted_where_it_begins():
    storage = with_epochs()

    assert list(storage.log.epochs.entries) == in_file(storage) == ALL
    storage.log.begin_leader_epoch(7)  # an older one: nothing is changed
    assert storage.log.leader_epoch == 9
    assert list(storage.log.epochs.entries) == ALL


def test_given_an_epoch_in_which_nothing_was_written_when_another_begins_then_it_is_replaced():
    storage = with_epochs()

    storage.log.begin_leader_epoch(11)
    storage.log.begin_leader_epoch(12)

    assert in_file(storage) == [*ALL, (12, 20)]


def test_given_an_epoch_that_is_there_or_older_when_it_begins_again_then_nothing_changes():
    storage = with_epochs()

    assert not storage.log.epochs.assign(9, 25)
    assert not storage.log.epochs.assign(4, 25)

    assert list(storage.log.epochs.entries) == in_file(storage) == ALL


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),
        (1, (0, 5)),
        (3, (3, 6)),
        (4, (4, 14)),
        (8, (4, 14)),
        (9, (9, 20)),
        (10, (-1, -1)),
    ],
)
def test_given_an_epoch_when_asked_where_it_ends_then_as_kafka_answers(epoch, answer):
    """OffsetForLeaderEpoch: KIP-101, KIP-279."""
    assert with_epochs().log.end_offset_for_epoch(epoch) == answer


def test_given_an_epoch_before_all_that_are_known_when_asked_then_it_ends_where_those_begin():
    storage = with_epochs()
    storage.log.advance_log_start(15)

    assert storage.log.end_offset_for_epoch(4) == (4, 15)
    assert storage.log.end_offset_for_epoch(9) == (9, 20)


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (20, ALL),
        (15, ALL),
        (14, [(0, 0), (3, 5), (4, 6), (9, 14)]),
        (7, [(0, 0), (3, 5), (4, 6), (9, 7)]),
        (6, [(0, 0), (3, 5), (9, 6)]),
        (5, [(0, 0), (9, 5)]),
        (0, [(9, 0)]),
    ],
)
def test_given_a_cut_when_it_is_made_then_epochs_above_it_go_and_the_log_s_own_goes_on(end, left):
    storage = with_epochs()

    storage.log.truncate_to(end)

    assert list(storage.log.epochs.entries) == left
    assert in_file(storage) == left
    storage.append(b"again")
    storage.flush()
    assert list(storage.crash().epochs.entries) == left


@pytest.mark.parametrize(
    ("start", "left"),
    [(1, [(0, 1), (3, 5), (4, 6), (9, 14)]), (5, [(3, 5), (4, 6), (9, 14)]),
     (6, [(4, 6), (9, 14)]), (10, [(4, 10), (9, 14)]), (20, [(9, 20)])],
)  # fmt: skip
@pytest.mark.parametrize("way", ["restart", "crash"])
def test_given_a_log_start_when_moved_then_epochs_that_ended_below_go(start, left, way):
    storage = with_epochs()
    storage.log.advance_log_start(start)
    assert list(storage.log.epochs.entries) == left
    storage.directory.checkpoint()

    log = getattr(storage, way)()

    assert list(log.epochs.entries) == left
    if way == "restart":
        assert in_file(storage) == left


def test_given_segments_deleted_when_started_then_epochs_begin_with_the_log():
    storage = with_epochs()
    storage.log.advance_log_start(9)
    storage.log.delete_old_segments(storage.clock.now_ms())

    storage.restart()

    assert list(storage.log.epochs.entries) == [(4, 9), (9, 14)]


WRONG = {
    "missing": None,
    "empty": b"",
    "garbled": b"0\n4\n0 0\n3 5\n\xff\xfe\n9 14\n",
    "too few": b"0\n4\n0 0\n3 5\n",
    "a later start": text((0, 0), (3, 5), (4, 7), (9, 14)),
    "an earlier start": text((0, 0), (3, 4), (4, 6), (9, 14)),
    "a lower epoch": text((0, 0), (2, 5), (4, 6), (9, 14)),
    "a higher epoch": text((0, 0), (3, 5), (4, 6), (10, 14)),
    "one is missing": text((0, 0), (4, 6), (9, 14)),
    "the last is missing": text((0, 0), (3, 5), (4, 6)),
    "only the first": text((0, 0)),
    "only the last": text((9, 14)),
    "the first begins later": text((0, 1), (3, 5), (4, 6), (9, 14)),
    "another log's": text((0, 0), (1, 3), (2, 11)),
    "above the end": text(*ALL, (12, 100)),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("way", ["clean", "kill"])
@pytest.mark.parametrize("config", [SMALL, LogConfig()], ids=["many segments", "one"])
def test_given_a_wrong_file_when_started_then_it_says_what_the_batches_say(wrong, way, config):
    storage = with_epochs(config)
    if way == "clean":
        storage.directory.close()
    else:
        storage.disk.kill()
    data = WRONG[wrong]
    if data is None:
        storage.disk.unlink(storage.path / FILE)
    else:
        put(storage, data)

    storage.restarted()

    assert list(storage.log.epochs.entries) == ALL
    assert in_file(storage) == ALL
    assert storage.log.leader_epoch == 9


def test_given_an_epoch_that_begins_at_the_log_end_when_started_then_it_is_kept():
    storage = with_epochs()
    storage.log.begin_leader_epoch(11)

    storage.restart()

    assert list(storage.log.epochs.entries) == [*ALL, (11, 20)]
    assert storage.log.leader_epoch == 11


def test_given_a_sound_file_when_started_then_it_is_not_written():
    storage = with_epochs()
    storage.directory.close()
    before = len(storage.disk.changes())

    storage.restarted()

    changed = [each.path.name for each in storage.disk.changes()[before:]]
    assert not [name for name in changed if name.startswith(FILE)]
