"""Idempotent producers: what is appended once, what is a repetition, what is refused (KIP-98)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.storage.append_origin import AppendOrigin
from broker.storage.log_config import LogConfig, MessageTimestampType
from protocol.compression import Codec
from protocol.errors import (
    CorruptMessageError,
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
    StorageError,
    TidelogError,
)
from protocol.limits import INT32_MAX
from tests.support.log_storage import LogStorage, batch
from tests.support.producers import (
    joined,
    known,
    producer_batch,
    send,
    send_in_transaction,
)

SMALL = LogConfig(segment_bytes=280, index_interval_bytes=100, segment_index_bytes=240)


def test_given_sequences_in_order_when_appended_then_each_has_its_offsets():
    log = LogStorage().log

    infos = [send(log, 7, sequence, count=2) for sequence in (0, 2, 4)]

    assert [(info.first_offset, info.last_offset) for info in infos] == [(0, 1), (2, 3), (4, 5)]
    assert not any(info.is_duplicate for info in infos)
    assert log.producers.producers[7].next_sequence == 6


@pytest.mark.parametrize("back", range(5))
def test_given_one_of_the_last_five_batches_when_sent_again_then_its_offsets_are_answered(back):
    storage = LogStorage()
    for sequence in range(0, 18, 3):
        send(storage.log, 7, sequence, count=3)

    info = send(storage.log, 7, 15 - 3 * back, count=3)

    assert info.is_duplicate
    assert (info.first_offset, info.last_offset, info.message_count) == (
        15 - 3 * back, 17 - 3 * back, 3,
    )  # fmt: skip
    assert info.append_time_ms == -1
    assert storage.log.log_end_offset == 18


def test_given_a_batch_older_than_the_last_five_when_sent_again_then_it_is_out_of_order():
    log = LogStorage().log
    for sequence in range(6):
        send(log, 7, sequence)

    with pytest.raises(OutOfOrderSequenceError) as caught:
        send(log, 7, 0)

    assert caught.value.code == 45
    assert log.log_end_offset == 6


@pytest.mark.parametrize(("sequence", "count"), [(4, 1), (1, 1), (0, 1), (2, 2), (1, 2)])
def test_given_a_gap_or_other_borders_when_appended_then_nothing_is(sequence, count):
    """Only a batch with just the same sequences is a repetition."""
    storage = LogStorage()
    send(storage.log, 7, 0, count=3)
    before = known(storage.log)

    with pytest.raises(OutOfOrderSequenceError):
        send(storage.log, 7, sequence, count=count)

    assert storage.log.log_end_offset == 3
    assert known(storage.log) == before


def test_given_an_unknown_producer_when_it_begins_with_any_sequence_then_it_is_accepted():
    """Its earlier batches may have been deleted: Kafka answers UNKNOWN_PRODUCER_ID no more."""
    log = LogStorage().log

    send(log, 7, 41)

    send(log, 7, 42)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 7, 44)


def test_given_a_newer_epoch_when_appended_then_it_must_begin_with_sequence_0():
    log = LogStorage().log
    send(log, 7, 0, count=3)

    with pytest.raises(OutOfOrderSequenceError):
        send(log, 7, 3, epoch=1)
    send(log, 7, 0, epoch=1)

    with pytest.raises(InvalidProducerEpochError) as caught:
        send(log, 7, 3, epoch=0)
    assert caught.value.code == 47
    with pytest.raises(InvalidProducerEpochError):  # a repetition from the older epoch, too
        send(log, 7, 0, count=3)
    assert send(log, 7, 0, epoch=1).is_duplicate


def test_given_the_largest_sequence_when_passed_then_it_goes_on_with_0():
    log = LogStorage().log
    send(log, 7, INT32_MAX - 1, count=2)

    send(log, 7, 0)
    send(log, 7, 1, count=2)

    assert send(log, 7, INT32_MAX - 1, count=2).first_offset == 0
    assert send(log, 7, 1, count=2).first_offset == 3


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_given_the_largest_sequence_when_started_again_then_it_goes_on_with_0(way):
    """From the snapshot, and from the log."""
    storage = LogStorage()
    send(storage.log, 7, INT32_MAX - 1, count=2)
    storage.flush()

    getattr(storage, way)()

    with pytest.raises(OutOfOrderSequenceError):
        send(storage.log, 7, 1)
    assert send(storage.log, 7, INT32_MAX - 1, count=2).is_duplicate
    assert not send(storage.log, 7, 0).is_duplicate


def test_given_a_batch_over_the_wrap_when_sent_again_then_it_is_known():
    log = LogStorage().log
    send(log, 7, INT32_MAX - 1, count=4)  # ..., 2^31-2, 2^31-1, 0, 1

    assert log.producers.producers[7].next_sequence == 2
    assert send(log, 7, INT32_MAX - 1, count=4).is_duplicate


def test_given_several_batches_in_one_set_when_appended_then_all_count_and_repeat_together():
    log = LogStorage().log
    batches = joined(
        producer_batch(7, 0, count=2), producer_batch(8, 5), producer_batch(7, 2, count=2)
    )

    first = log.append(joined(batches))
    again = log.append(joined(batches))

    assert (first.first_offset, first.last_offset, first.is_duplicate) == (0, 4, False)
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (0, 4, True)
    assert log.log_end_offset == 5


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(producer_batch(7, 5), id="gap"),
        pytest.param(producer_batch(7, 0, count=2), id="the first again"),
        pytest.param(producer_batch(9, 3, epoch=2), id="older epoch"),
    ],
)
def test_given_one_wrong_batch_in_a_set_when_appended_then_nothing_is_changed(wrong):
    """All or nothing: not even the buffer is stamped."""
    storage = LogStorage()
    send(storage.log, 9, 0, epoch=3)
    before = known(storage.log)
    sent = joined(producer_batch(7, 0, count=2), wrong, producer_batch(8, 0))
    copy = bytes(sent)

    with pytest.raises((OutOfOrderSequenceError, InvalidProducerEpochError)):
        storage.log.append(sent)

    assert bytes(sent) == copy
    assert known(storage.log) == before
    assert storage.log.log_end_offset == 1


def test_given_a_repetition_and_something_new_in_one_set_when_appended_then_it_is_refused():
    """Kafka would call the whole set a repetition, and lose what is new."""
    log = LogStorage().log
    send(log, 7, 0)

    with pytest.raises(OutOfOrderSequenceError):
        log.append(joined(producer_batch(7, 0), producer_batch(7, 1)))
    with pytest.raises(OutOfOrderSequenceError):
        log.append(joined(producer_batch(7, 0), batch(b"no producer")))

    assert log.log_end_offset == 1


def test_given_batches_that_were_not_together_when_sent_as_one_set_then_it_is_no_repetition():
    """One base offset could not answer for both."""
    log = LogStorage().log
    send(log, 7, 0)
    send(log, 8, 0)
    send(log, 7, 1)

    with pytest.raises(OutOfOrderSequenceError):
        log.append(joined(producer_batch(7, 0), producer_batch(7, 1)))


def test_given_a_disk_that_refuses_when_appended_then_the_producer_may_try_again():
    """State moves only after the write succeeded."""
    storage = LogStorage()
    send(storage.log, 7, 0)
    before = known(storage.log)

    for data in (producer_batch(7, 1), joined(producer_batch(7, 1), producer_batch(8, 0))):
        storage.disk.fail("write", OSError(28, "No space left on device"))
        with pytest.raises(StorageError):
            storage.log.append(data)
        assert known(storage.log) == before

    assert not send(storage.log, 7, 1).is_duplicate


def test_given_log_append_time_when_repeated_then_the_first_time_is_answered():
    storage = LogStorage(LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME))
    first = send(storage.log, 7, 0)
    storage.clock.advance(ms=5_000)

    again = send(storage.log, 7, 0)

    assert first.append_time_ms == storage.clock.now_ms() - 5_000
    assert again.append_time_ms == first.append_time_ms


def test_given_a_repetition_when_origin_is_replication_then_it_is_taken_as_it_is():
    """The leader has checked it: what it has is what a follower has."""
    log = LogStorage().log
    send(log, 7, 5, epoch=2)

    info = log.append(producer_batch(7, 5, epoch=2), origin=AppendOrigin.REPLICATION)
    log.append(producer_batch(7, 1, epoch=1), origin=AppendOrigin.REPLICATION)

    assert (info.first_offset, info.is_duplicate) == (1, False)
    assert log.log_end_offset == 3


# --- the short way --------------------------------------------------------------------------------


@given(
    producer_id=st.sampled_from([-1, 7, 8]),
    sequence=st.integers(0, 4),
    epoch=st.integers(0, 2),
    count=st.integers(1, 3),
    codec=st.sampled_from([Codec.NONE, Codec.GZIP]),
    flip=st.none() | st.integers(17, 120),
    transactional=st.booleans(),
)
def test_given_any_batch_when_the_short_way_takes_it_then_the_long_way_says_the_same(
    producer_id, sequence, epoch, count, codec, flip, transactional
):
    short, long = LogStorage(), LogStorage()
    for storage in (short, long):
        storage.log.append(producer_batch(7, 0, epoch=1, count=2))
        send_in_transaction(storage.log, 8, 0, epoch=1)
    if producer_id == -1:
        data = batch(*[b"v"] * count, codec=codec)
    else:
        data = producer_batch(
            producer_id, sequence, epoch=epoch, count=count, codec=codec,
            transactional=transactional,
        )  # fmt: skip
    if flip is not None and flip < len(data):
        data[flip] ^= 4
    copy = joined(data)

    appended = short.log.appender.append_plain(data)

    if not appended:
        assert bytes(data) == bytes(copy), "nothing is changed by a look"
        assert known(short.log) == known(long.log)
        return
    info = long.log.append(copy)
    assert appended == info.message_count
    assert bytes(data) == bytes(copy)
    assert known(short.log) == known(long.log)
    assert short.log.log_end_offset == long.log.log_end_offset


def test_given_the_next_sequence_when_appended_then_the_short_way_takes_it():
    log = LogStorage().log
    send(log, 7, 0)

    assert log.appender.append_plain(producer_batch(7, 1, count=3)) == 3
    assert log.appender.append_plain(producer_batch(7, 1, count=3)) == 0
    assert send(log, 7, 1, count=3).first_offset == 1
    assert log.appender.append_plain(producer_batch(7, 4)) == 1


@given(position=st.integers(17, 77), bit=st.integers(0, 7))
def test_given_a_flipped_bit_when_appended_then_no_way_takes_it(position, bit):
    log = LogStorage().log
    send(log, 7, 0)
    data = producer_batch(7, 1)
    data[min(position, len(data) - 1)] ^= 1 << bit

    assert log.appender.append_plain(data) == 0
    with pytest.raises((CorruptMessageError, TidelogError)):
        log.append(data)
    assert log.log_end_offset == 1


# --- forgetting -----------------------------------------------------------------------------------


def test_given_a_roll_when_appended_then_the_snapshot_says_what_was_before():
    storage = LogStorage(SMALL)
    for sequence in range(10):
        send(storage.log, 7, sequence)

    bases = [each.base_offset for each in storage.log.segments]

    assert len(bases) > 2
    assert storage.log.snapshots.offsets == bases[1:]
    for base in bases[1:]:
        (producer,) = storage.log.snapshots.read(base)
        assert producer.last_offset == producer.last_sequence == base - 1
        assert len(producer.batches) == min(5, base)
