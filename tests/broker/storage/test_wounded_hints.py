"""Every file that is a hint, with every wound: no answer changes (design, "An index is a hint").

Indexes, snapshots, checkpoints, the marker and the durable offsets are all made from the logs, or
only bound what has to be checked. So whatever becomes of one of them, a start answers as it would
have without the wound; the wounds and what they hit come from seeds.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from broker.storage.append_origin import AppendOrigin
from broker.storage.housekeeping import Housekeeping
from broker.storage.log_reader import ReadLimit
from protocol.compression import Codec
from protocol.end_transaction_marker import EndTransactionMarker, build_marker_batch
from protocol.record_batch_builder import build_batch
from tests.support.log_storage import NOW_MS, ROOT, SMALL_SEGMENTS, LogStorage, records_of

BLOCK_BYTES: Final = 24


def told() -> LogStorage:
    """A log with all there can be: two epochs, an idempotent producer, an aborted transaction,
    several segments, and a log start inside the first of them."""
    storage = LogStorage(SMALL_SEGMENTS)
    for number in range(6):
        storage.clock.advance(ms=1000)
        storage.append(b"%d" % number)
    storage.log.begin_leader_epoch(4)
    now_ms = storage.clock.now_ms()
    for sequence in range(2):
        produced(storage, 7, sequence, now_ms + sequence)
    produced(storage, 8, 0, now_ms + 5, is_transactional=True)
    marker = EndTransactionMarker(False, 0, now_ms + 6)
    data = build_marker_batch(marker, producer_id=8, producer_epoch=0)
    storage.log.append(memoryview(bytearray(data)), origin=AppendOrigin.COORDINATOR)
    for number in range(3):
        storage.clock.advance(ms=1000)
        storage.append(b"z%d" % number)
    storage.flush()
    storage.log.advance_log_start(1)
    storage.directory.checkpoint()
    storage.flush()
    storage.directory.durable_offsets.write_and_sync()
    return storage


def produced(
    storage: LogStorage, producer_id: int, sequence: int, at_ms: int, **options: Any
) -> None:
    data = build_batch(
        [(0, at_ms, b"k", b"p%d" % sequence)], codec=Codec.NONE, producer_id=producer_id,
        producer_epoch=0, base_sequence=sequence, **options,
    )  # fmt: skip
    storage.log.append(memoryview(bytearray(data)), origin=AppendOrigin.REPLICATION)


def answers(storage: LogStorage) -> dict[str, Any]:
    """Everything that a client can ask of the log."""
    log = storage.log
    times = range(NOW_MS - 1, storage.clock.now_ms() + 2, 500)
    return {
        "ends": (log.log_start_offset, log.log_end_offset, log.high_watermark),
        "stable": log.last_stable_offset,
        "records": storage.records(limit=ReadLimit.LOG_END),
        "seeks": [records_of(log.read(offset, 1))[0] for offset in range(1, log.high_watermark)],
        "times": [log.offset_for_timestamp(time) for time in times],
        "aborted": log.aborted_transactions(0, log.log_end_offset),
        "epochs": [log.end_offset_for_epoch(epoch) for epoch in range(6)],
        "producers": log.producers.last_batch_offsets(),
        "damage": list(log.damage),
    }


def deleted(storage: LogStorage, path: Path, random: Random) -> None:
    storage.disk.unlink(path)
    storage.disk.sync_directory(path.parent)


def changed(change: Callable[[bytes, Random], bytes]) -> Callable[[LogStorage, Path, Random], None]:
    def wound(storage: LogStorage, path: Path, random: Random) -> None:
        data = change(storage.disk.read_file(path), random)
        file = storage.disk.open(path)
        file.truncate(0)
        file.write([data], 0)
        file.sync()
        file.close()

    return wound


def flipped(data: bytes, random: Random) -> bytes:
    changed_data = bytearray(data)
    if changed_data:
        at = random.randrange(len(changed_data))
        changed_data[at] ^= 1 << random.randrange(8)
    return bytes(changed_data)


def zeroed_block(data: bytes, random: Random) -> bytes:
    at = random.randrange(max(len(data), 1))
    return data[:at] + bytes(len(data[at : at + BLOCK_BYTES])) + data[at + BLOCK_BYTES :]


def doubled_block(data: bytes, random: Random) -> bytes:
    at = random.randrange(max(len(data), 1))
    to = random.randrange(max(len(data), 1))
    block = data[at : at + BLOCK_BYTES]
    return (data[:to] + block + data[to + len(block) :])[: len(data)]


WOUNDS: dict[str, Callable[[LogStorage, Path, Random], None]] = {
    "deleted": deleted,
    "empty": changed(lambda data, random: b""),
    "truncated": changed(lambda data, random: data[: random.randrange(len(data) + 1)]),
    "zeroed": changed(lambda data, random: bytes(len(data))),
    "a zeroed block": changed(zeroed_block),
    "random bytes": changed(lambda data, random: random.randbytes(max(len(data), 30))),
    "garbage text": changed(lambda data, random: b"0\n1\ntide 0 not-a-number\n\xff\n"),
    "a doubled block": changed(doubled_block),
    "longer": changed(lambda data, random: data + random.randbytes(13)),
}
INDEXES = {
    "sealed .index": f"{4:020d}.index",
    "sealed .timeindex": f"{4:020d}.timeindex",
    "active .index": "active.index",
    "active .timeindex": "active.timeindex",
    "snapshot": "newest.snapshot",
    "txnindex": "any.txnindex",
    "epochs": "leader-epoch-checkpoint",
}
BESIDE = {
    "recovery points": "recovery-point-offset-checkpoint",
    "high watermarks": "replication-offset-checkpoint",
    "log starts": "log-start-offset-checkpoint",
    "durable offsets": "durable-offsets",
    "the marker": ".kafka_cleanshutdown",
}


def path_of(storage: LogStorage, file: str) -> Path:
    if file in BESIDE:
        return ROOT / BESIDE[file]
    name = INDEXES[file]
    names = storage.names()
    if name.startswith("active."):
        newest = max(each for each in names if each.endswith(".log"))
        name = newest.replace(".log", name.removeprefix("active"))
    elif name.startswith(("newest.", "any.")):
        name = max(each for each in names if each.endswith(name[name.index(".") :]))
    assert name in names, f"the story makes no {file}"
    return storage.path / name


def combinations() -> list[tuple[str, str, str]]:
    return [
        (file, wound, start)
        for file in (*INDEXES, *BESIDE)
        for wound in WOUNDS
        for start in ("clean", "kill", "power cut")
        if file != "the marker" or start == "clean"  # else there is none
    ]


@pytest.mark.parametrize(("file", "wound", "start"), combinations())
def test_given_any_wound_in_any_hint_when_started_then_no_answer_changes(
    file: str, wound: str, start: str
):
    """R12, R17, R31: on a clean start as on an unclean one."""
    for seed in range(1 if wound in ("deleted", "empty", "zeroed", "garbage text") else 2):
        storage = told()
        before = answers(storage)
        if start == "clean":
            storage.directory.close()
        path = path_of(storage, file)
        WOUNDS[wound](storage, path, Random(f"{file} {wound} {seed}"))
        (storage.disk.crash if start == "power cut" else storage.disk.kill)()

        storage.restarted()

        assert answers(storage) == before, (file, wound, seed)
        offset = storage.append(b"on")
        assert offset == before["ends"][1]


@pytest.mark.parametrize("start", ["clean", "kill"])
@pytest.mark.parametrize("file", INDEXES)
def test_given_any_flipped_bits_in_an_index_or_snapshot_when_started_then_no_answer_changes(
    file: str, start: str
):
    """R12, R17: one bit each time, anywhere."""
    for seed in range(8):
        storage = told()
        before = answers(storage)
        if start == "clean":
            storage.directory.close()
        changed(flipped)(storage, path_of(storage, file), Random(f"{file} {seed}"))
        storage.disk.kill()

        storage.restarted()

        assert answers(storage) == before, (file, seed)


def test_given_the_story_when_told_then_it_has_what_the_wounds_are_for():
    storage = told()
    found = answers(storage)

    assert found["ends"][0] == 1
    assert len(found["aborted"]) == 1
    assert found["producers"]
    assert len(storage.log.segments) >= 3
    assert len({at for at in found["times"] if at is not None}) > 6


# --- digits of a log start ------------------------------------------------------------------------

LOG_STARTS: Final = ROOT / "log-start-offset-checkpoint"


def with_other_digits(data: bytes) -> list[bytes]:
    """The file with each digit in it made each other digit."""
    return [
        data[:at] + b"%d" % digit + data[at + 1 :]
        for at, byte in enumerate(data)
        for digit in range(10)
        if chr(byte).isdigit() and byte != ord(b"%d" % digit)
    ]


@pytest.mark.parametrize("start", ["clean", "kill", "power cut"])
def test_given_any_wrong_digit_among_the_log_starts_when_started_then_no_answer_changes(start: str):
    """Upwards it would hide records, and have retention delete them; downwards bring some back."""
    before = answers(told())
    wrong_files = with_other_digits(told().disk.read_file(LOG_STARTS))
    assert len(wrong_files) == 4 * 9

    for wrong in wrong_files:
        storage = told()
        if start == "clean":
            storage.directory.close()
        changed(lambda data, random, wrong=wrong: wrong)(storage, LOG_STARTS, Random())
        (storage.disk.crash if start == "power cut" else storage.disk.kill)()

        storage.restarted()

        assert answers(storage) == before, wrong


def test_given_a_start_that_was_cut_off_when_a_digit_is_wrong_then_the_copy_it_made_decides():
    """A start writes `durable-offsets` anew, before anything else can tell it of a log start."""
    storage = told()
    before = answers(storage)
    storage.crash()
    data = storage.disk.read_file(LOG_STARTS)
    changed(lambda _, random: data.replace(b" 1\n", b" 9\n"))(storage, LOG_STARTS, Random())

    storage.crash()

    assert answers(storage) == before


@pytest.mark.parametrize("start", ["kill", "power cut"])
def test_given_deleted_segments_that_keep_their_names_when_a_digit_is_wrong_then_it_is_not_believed(
    start: str,
):
    """Retention's log start has its second copy too, as long as a deleted file may come back."""
    storage = told()
    first = storage.log.segments.base_offsets[2]
    storage.log.advance_log_start(first)
    storage.log.delete_old_segments(storage.clock.now_ms())
    assert storage.log.segments.base_offsets[0] == first, "a segment's name says the log start"
    storage.directory.checkpoint_task()  # notes it
    storage.directory.durable_offsets.write_and_sync()
    storage.directory.checkpoint_task().run()  # nothing was renamed yet
    data = storage.disk.read_file(LOG_STARTS)
    wrong = data.replace(b" %d\n" % first, b" %d\n" % (first + 1))
    assert wrong != data
    changed(lambda data, random: wrong)(storage, LOG_STARTS, Random())
    (storage.disk.crash if start == "power cut" else storage.disk.kill)()

    storage.restarted()

    assert storage.log.log_start_offset == first


def test_given_durable_offsets_that_are_not_written_when_checkpointed_then_no_log_start_is_alone():
    storage = told()
    log_starts = storage.disk.read_file(LOG_STARTS)
    housekeeping = Housekeeping(storage.directory)
    storage.log.advance_log_start(2)
    saved: list[bool] = []
    housekeeping.checkpoint_soon(saved.append)
    storage.disk.fail("write", OSError(errno.ENOSPC, "full"), path_suffix="durable-offsets")

    housekeeping.run_due(storage.clock.monotonic())

    assert saved == [False]
    assert storage.disk.read_file(LOG_STARTS) == log_starts
    housekeeping.checkpoint_soon(saved.append)
    housekeeping.run_due(storage.clock.monotonic())
    assert saved == [False, True]
    assert storage.crash().log_start_offset == 2


@pytest.mark.parametrize("log_start", [1, 7, 999])
def test_given_no_durable_offsets_when_started_cleanly_then_a_log_start_above_the_end_is_wrong(
    log_start: int,
):
    """As in a directory of Kafka's: the recovery point and the segments say where the log ends."""
    storage = told()
    before = answers(storage)
    storage.directory.close()
    storage.disk.unlink(storage.directory.durable_offsets.path)
    data = storage.disk.read_file(LOG_STARTS)
    wrong = data.replace(b" 1\n", b" %d\n" % log_start) if log_start != 1 else data
    changed(lambda data, random: wrong)(storage, LOG_STARTS, Random())

    log = storage.restarted()

    assert log.log_end_offset == before["ends"][1]
    assert log.log_start_offset == (log_start if log_start < log.log_end_offset else 0)
