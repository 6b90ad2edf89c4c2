"""Producers and transactions against a model that knows the whole log (R23, R36).

The model is a list of what was appended, and looks through all of it for each answer. The log may
be rolled, cut, stopped, killed, have its power cut, lose snapshots and transaction indexes and
have bits in them flipped: it must say the same, each time.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.storage.log_config import FlushPolicy, LogConfig
from protocol.errors import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
    TidelogError,
)
from protocol.limits import INT32_MAX
from tests.support.log_storage import LogStorage
from tests.support.producers import (
    committed_offsets,
    end_transaction,
    joined,
    producer_batch,
)

PRODUCERS = st.sampled_from([1, 2, 3])
DAY_MS = 86_400_000


class Stored(NamedTuple):
    """A batch in the model's log; a marker has `commit` True or False."""

    producer_id: int
    epoch: int
    sequence: int
    count: int
    offset: int
    transactional: bool
    commit: bool | None = None

    @property
    def end(self) -> int:
        return self.offset + self.count

    @property
    def sequences(self) -> tuple[int, int]:
        last = (self.sequence + self.count - 1) % (INT32_MAX + 1)
        return self.sequence, last


class View(NamedTuple):
    """What the model finds of one producer."""

    epoch: int
    batches: list[Stored]
    txn_first: int


def view(log: list[Stored], producer_id: int, from_index: int = 0) -> View | None:
    epoch, batches, txn_first = -1, [], -1
    for each in log[from_index:]:
        if each.producer_id != producer_id:
            continue
        if each.epoch != epoch:
            epoch, batches = each.epoch, []
        if each.commit is not None:
            txn_first = -1
            continue
        batches = [*batches, each][-5:]
        if each.transactional and txn_first < 0:
            txn_first = each.offset
    return None if epoch < 0 else View(epoch, batches, txn_first)


class Producers(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from([FlushPolicy.COMMIT, FlushPolicy.OS]))
    def begin(self, policy):
        self.storage = LogStorage(
            LogConfig(
                flush_policy=policy, segment_bytes=400, index_interval_bytes=150,
                segment_index_bytes=240,
            )
        )  # fmt: skip
        self.model: list[Stored] = []
        self.forgotten: set[int] = set()
        self.flushed = 0

    @property
    def log(self):
        return self.storage.log

    # --- what clients and coordinators do -----------------------------------------------------

    @rule(
        producer_id=PRODUCERS,
        step=st.sampled_from([0, 0, 0, 0, 0, 1, -1, -2, -3, -6, INT32_MAX - 2]),
        epoch_step=st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]),
        counts=st.lists(st.integers(1, 3), min_size=1, max_size=3),
        transactional=st.booleans(),
        fresh=st.booleans(),
    )
    def append(self, producer_id, step, epoch_step, counts, transactional, fresh):
        known = self.log.producers.producers.get(producer_id)
        epoch = max(0, (known.epoch if known else 0) + epoch_step)
        expected = 0 if known is None or (epoch_step and fresh) else known.next_sequence
        sequence = (expected + step) % (INT32_MAX + 1)
        batches, at = [], sequence
        for count in counts:
            batches.append((at, count))
            at = (at + count) % (INT32_MAX + 1)
        self.send(producer_id, epoch, batches, transactional)

    @rule(producer_id=PRODUCERS, back=st.integers(1, 6), together=st.integers(1, 3))
    def repeat(self, producer_id, back, together):
        """Send again what is in the log already, as it was."""
        sent = [
            each for each in self.model if each.producer_id == producer_id and each.commit is None
        ]
        again = sent[-back:][:together]
        if again:
            batches = [(each.sequence, each.count) for each in again]
            self.send(producer_id, again[0].epoch, batches, again[0].transactional)

    def send(self, producer_id, epoch, batches, transactional):
        data = joined(
            *(
                producer_batch(
                    producer_id, sequence, epoch=epoch, count=count, transactional=transactional
                )
                for sequence, count in batches
            )
        )
        expected = self.expected(producer_id, epoch, batches, transactional)
        before = self.log.log_end_offset
        if isinstance(expected, type):
            try:
                self.log.append(data, is_verified=True)
            except expected:
                assert self.log.log_end_offset == before
                return
            raise AssertionError(f"{expected} was to be raised")
        if len(batches) == 1 and self.log.appender.append_plain(data):
            assert expected == before
        else:
            info = self.log.append(data, is_verified=True)
            assert info.first_offset == expected
            assert info.is_duplicate == (expected < before)
        if expected == before:
            for sequence, count in batches:
                stored = Stored(producer_id, epoch, sequence, count, before, transactional)
                self.model.append(stored)
                before = stored.end
        assert self.log.log_end_offset == before

    def expected(self, producer_id, epoch, batches, transactional):
        """The first offset that is to be answered, or the error."""
        known = view(self.model, producer_id)
        if producer_id in self.forgotten:
            known = self.actual(producer_id)
        is_run = all(
            (one[0] + one[1]) % (INT32_MAX + 1) == other[0] for one, other in pairwise(batches)
        )
        if known is None:
            return self.log.log_end_offset if is_run else OutOfOrderSequenceError
        if epoch == known.epoch:
            asked = [
                Stored(producer_id, epoch, sequence, count, 0, False).sequences
                for sequence, count in batches
            ]
            for start in range(len(known.batches)):
                stretch = known.batches[start : start + len(asked)]
                is_one = all(a.end == b.offset for a, b in pairwise(stretch))
                if is_one and [each.sequences for each in stretch] == asked:
                    return stretch[0].offset
        if epoch < known.epoch:
            return InvalidProducerEpochError
        if known.txn_first >= 0 and not transactional:
            return InvalidTransactionStateError
        last = known.batches[-1].sequences[1] if known.batches and epoch == known.epoch else -1
        if batches[0][0] != (last + 1) % (INT32_MAX + 1) or not is_run:
            return OutOfOrderSequenceError
        return self.log.log_end_offset

    def actual(self, producer_id):
        """What the log knows of a producer that it has forgotten once."""
        producer = self.log.producers.producers.get(producer_id)
        if producer is None:
            return None
        by_offset = {each.offset: each for each in self.model}
        batches = [by_offset[each.first_offset] for each in producer.batches]
        return View(producer.epoch, batches, producer.txn_first_offset)

    @rule(producer_id=PRODUCERS, commit=st.booleans(), epoch_step=st.sampled_from([0, 0, 1, -1]))
    def end_transaction(self, producer_id, commit, epoch_step):
        known = self.log.producers.producers.get(producer_id)
        epoch = max(0, (known.epoch if known else 0) + epoch_step)
        offset = self.log.log_end_offset
        try:
            end_transaction(self.log, producer_id, commit=commit, epoch=epoch)
        except InvalidProducerEpochError:
            assert known is not None
            assert epoch < known.epoch
            return
        self.model.append(Stored(producer_id, epoch, -1, 1, offset, True, commit))

    # --- what happens to the log --------------------------------------------------------------

    @rule()
    def roll(self):
        self.log.roll()

    @rule()
    def flush(self):
        self.storage.flush()
        self.flushed = self.log.log_end_offset

    @rule(share=st.floats(0, 1))
    def cut(self, share):
        end = self.log.truncate_to(int(share * self.log.log_end_offset))
        self.flushed = min(self.flushed, end)
        self.lost_above(end)

    @rule(way=st.sampled_from(["restart", "kill", "crash"]), seed=st.integers(0, 999))
    def start_again(self, way, seed):
        end = self.log.log_end_offset
        if way == "crash":
            self.storage.crash(Random(seed))
        else:
            getattr(self.storage, way)()
        if way != "crash":
            assert self.log.log_end_offset == end
        assert self.flushed <= self.log.log_end_offset <= end
        self.flushed = self.log.log_end_offset
        self.lost_above(self.flushed)

    @rule(seed=st.integers(0, 999), stop=st.booleans())
    def start_again_after_damage(self, seed, stop):
        """To the hints only, and not to those of Kafka's that have no checksum anywhere."""
        random = Random(seed)
        if stop:
            self.storage.directory.close()
        else:
            self.storage.flush()
            self.storage.disk.kill()
        disk, path = self.storage.disk, self.storage.path
        for name in disk.list_directory(path):
            if name.endswith(".snapshot") and random.random() < 0.4:
                self.wound(path / name, random)
        self.storage.restarted()
        self.flushed = self.log.log_end_offset
        self.lost_above(self.flushed)

    @rule(seed=st.integers(0, 999))
    def damage_transaction_indexes(self, seed):
        random = Random(seed)
        self.storage.directory.close()
        disk, path = self.storage.disk, self.storage.path
        for name in disk.list_directory(path):
            if name.endswith(".txnindex"):
                self.wound(path / name, random)
        self.storage.restarted()
        self.flushed = self.log.log_end_offset

    def wound(self, path, random):
        disk = self.storage.disk
        data = bytearray(disk.read_file(path))
        wound = random.choice(["flip", "cut", "gone"])
        if wound == "gone":
            disk.unlink(path)
            return
        if wound == "flip" and data:
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        elif wound == "cut":
            del data[random.randrange(len(data) + 1) :]
        file = disk.open(path)
        file.truncate(0)
        file.write([bytes(data)], 0)
        file.sync()
        file.close()

    @precondition(lambda self: self.model)
    @rule()
    def forget_the_silent(self):
        """Time passes: who has no transaction open is forgotten."""
        log = self.log
        silent = {
            each.producer_id
            for each in log.producers.producers.values()
            if each.txn_first_offset < 0
        }
        self.storage.clock.advance(ms=DAY_MS // 1000)

        log.producers.expire(self.storage.clock.now_ms(), DAY_MS // 1000)

        assert silent.isdisjoint(log.producers.producers)
        self.forgotten |= silent

    def lost_above(self, end):
        self.model = [each for each in self.model if each.end <= end]
        assert (self.model[-1].end if self.model else 0) == end

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def knows_what_the_model_knows(self):
        if not hasattr(self, "model"):
            return
        self.storage.check_invariants()
        producers = self.log.producers.producers
        for producer_id in {each.producer_id for each in self.model} | set(producers):
            expected, actual = view(self.model, producer_id), self.actual(producer_id)
            if producer_id not in self.forgotten:
                assert actual == expected, producer_id
            elif actual is not None:
                assert expected is not None
                assert (actual.epoch, actual.txn_first) == (expected.epoch, expected.txn_first)
                assert not actual.batches or (
                    actual.batches == expected.batches[-len(actual.batches) :]
                )

    @invariant()
    def shows_what_is_decided(self):
        if not hasattr(self, "model"):
            return
        high_watermark = self.log.high_watermark
        stable = high_watermark
        first: dict[int, int] = {}
        aborted: set[int] = set()
        for each in self.model:
            if each.commit is None:
                if each.transactional:
                    first.setdefault(each.producer_id, each.offset)
                continue
            begin = first.pop(each.producer_id, None)
            if begin is None:
                continue
            if each.offset >= high_watermark:
                stable = min(stable, begin)
            if not each.commit:
                aborted |= {
                    other.offset
                    for other in self.model
                    if other.producer_id == each.producer_id and other.transactional
                    and begin <= other.offset < each.offset
                }  # fmt: skip
        stable = min([stable, *first.values()])
        assert self.log.last_stable_offset == stable
        expected = [
            offset
            for each in self.model
            if each.commit is None and each.offset not in aborted and each.offset < stable
            for offset in range(each.offset, each.end)
        ]
        assert committed_offsets(self.log) == expected

    def teardown(self):
        if hasattr(self, "storage"):
            try:
                self.storage.directory.close()
            except TidelogError as error:
                raise AssertionError("the log could not be closed") from error


TestProducers = Producers.TestCase
TestProducers.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
