"""Of many batches those that producers remember: the same state as from all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.storage.producer_state import ProducerBatch, ProducerState
from broker.storage.recent_batches import PRODUCERS_MAX, RecentBatches
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import BatchHeader, parse_header

PLAIN = parse_header(
    build_batch([(0, 1, None, b"x")], producer_id=1, producer_epoch=0, base_sequence=0)
)
TRANSACTIONAL_ATTRIBUTES = 1 << 4


def header(offset: int, producer_id: int, epoch: int, sequence: int) -> BatchHeader:
    return PLAIN._replace(
        base_offset=offset, producer_id=producer_id, producer_epoch=epoch,
        base_sequence=sequence, max_timestamp=1_000 + offset,
    )  # fmt: skip


def state_after(batches) -> dict:
    state = ProducerState(100)
    for each in batches:
        state.replay(ProducerBatch(each, each.base_offset, None, each.max_timestamp))
    return {
        producer.producer_id: (producer.to_entry(), producer.earlier_batches())
        for producer in state.producers.values()
    }


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 1), st.integers(0, 9), st.booleans()),
        max_size=40,
    )
)
def test_given_any_batches_when_only_the_recent_are_taken_then_the_state_is_the_same(drawn):
    every, few, recent = [], [], RecentBatches()
    for offset, (producer_id, epoch, sequence, take_now) in enumerate(drawn):
        batch = header(offset, producer_id, epoch, sequence)
        every.append(batch)
        assert recent.add(offset * 100, batch)
        if take_now:
            few += [each for _, each in recent.take()]
    few += [each for _, each in recent.take()]

    assert state_after(few) == state_after(every)


def test_given_many_batches_of_a_producer_when_taken_then_its_last_ones_are_there_in_order():
    recent = RecentBatches()
    for offset in range(20):
        recent.add(offset * 100, header(offset, 1 + offset % 2, 0, offset))

    assert [position for position, _ in recent.take()] == [each * 100 for each in range(10, 20)]
    assert recent.take() == []


def test_given_a_transactions_batch_when_added_then_it_is_not_one_for_this():
    recent = RecentBatches()

    assert not recent.add(0, PLAIN._replace(attributes=TRANSACTIONAL_ATTRIBUTES))
    assert not recent.add(0, PLAIN._replace(attributes=TRANSACTIONAL_ATTRIBUTES | 1 << 5))


def test_given_too_many_producers_when_added_then_what_is_there_has_to_be_used_first():
    recent = RecentBatches()
    for number in range(PRODUCERS_MAX):
        assert recent.add(number, header(number, number, 0, 0))

    assert not recent.add(PRODUCERS_MAX, header(PRODUCERS_MAX, PRODUCERS_MAX, 0, 0))
    assert len(recent.take()) == PRODUCERS_MAX
    assert recent.add(PRODUCERS_MAX, header(PRODUCERS_MAX, PRODUCERS_MAX, 0, 0))
