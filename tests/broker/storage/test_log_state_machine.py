"""A log against a list: whatever is done to it and whenever it crashes (hypothesis state machine).

The model is the list of all values ever appended and still there, from offset 0 on. Checked is:
a read finds exactly the model's records; what was committed survives every crash, at its offset,
byte-equal; what comes back beyond it is a prefix of what was appended, never anything else.
"""

from __future__ import annotations

from random import Random

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.storage.flush import FlushTask
from broker.storage.housekeeping import Housekeeping
from broker.storage.log_config import FlushPolicy
from broker.storage.log_reader import ReadLimit
from protocol.errors import OffsetOutOfRangeError, TidelogError
from tests.support.log_storage import SMALL_SEGMENTS, LogStorage, batch, batches, records_of

VALUES = st.lists(st.binary(max_size=90), min_size=1, max_size=3)


class LogMachine(RuleBasedStateMachine):
    """Flush policy `commit`."""

    policy = FlushPolicy.COMMIT

    def __init__(self) -> None:
        super().__init__()
        config = msgspec.structs.replace(
            SMALL_SEGMENTS, segment_bytes=500, retention_ms=10_000, flush_policy=self.policy
        )
        self.storage = LogStorage(config)
        self.housekeeping = Housekeeping(self.storage.directory)
        self.model: list[bytes] = []
        self.borders = {0}
        self.safe = 0
        """Everything below this offset has to survive a power cut."""
        self.task: FlushTask | None = None

    @property
    def log(self):
        return self.storage.log

    # --- what is done -------------------------------------------------------------------------

    @rule(sets=st.lists(VALUES, min_size=1, max_size=2))
    def append(self, sets):
        now_ms = self.storage.clock.now_ms()
        data = memoryview(bytearray(b"".join(batch(*each, timestamp=now_ms) for each in sets)))

        info = self.log.append(data)

        assert info.first_offset == len(self.model)
        for values in sets:
            self.model += values
            self.borders.add(len(self.model))
        assert info.last_offset + 1 == self.log.log_end_offset == len(self.model)

    @rule()
    def append_a_bad_one(self):
        data = batches([b"good"], [b"bad"])
        data[-1] ^= 1
        try:
            self.log.append(data)
        except TidelogError:
            return
        raise AssertionError("a bad crc was accepted")

    @rule()
    def roll(self):
        self.log.roll()

    @precondition(lambda self: self.task is None)
    @rule()
    def flush(self):
        self.storage.flush()
        self.safe = max(self.safe, self.log.durable_offset)
        assert self.log.durable_offset == self.log.log_end_offset

    @precondition(lambda self: self.task is None)
    @rule()
    def begin_flush(self):
        self.task = self.log.flush_task()
        if self.task is not None:
            self.task.run()

    @precondition(lambda self: self.task is not None)
    @rule()
    def end_flush(self):
        assert self.task is not None
        self.log.flush_completed(self.task)
        self.storage.directory.durable_offsets.write()
        self.safe = max(self.safe, self.log.durable_offset)
        self.task = None

    @rule(share=st.floats(0, 1))
    def truncate(self, share):
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = start + int(share * (end - start))

        new_end = self.log.truncate_to(offset)

        assert max(each for each in self.borders if each <= offset) <= new_end <= offset
        del self.model[new_end:]
        self.borders = {each for each in self.borders if each <= new_end}
        self.safe = min(self.safe, new_end)

    @rule(share=st.floats(0, 1))
    def advance_log_start(self, share):
        start, end = self.log.log_start_offset, self.log.high_watermark
        self.log.advance_log_start(start + int(share * (end - start)))

    @rule(ms=st.sampled_from([100, 5_000, 400_000]))
    def let_time_pass(self, ms):
        self.storage.clock.advance(ms=ms)
        self.housekeeping.run_due(self.storage.clock.monotonic())

    @rule()
    def checkpoint(self):
        self.storage.directory.checkpoint()

    @rule(seed=st.integers(0, 2**32) | st.none())
    def cut_the_power(self, seed):
        start = self.log.log_start_offset
        self.storage.crash(None if seed is None else Random(seed))
        self._compare_after_crash(start)

    @rule()
    def kill(self):
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.storage.kill()
        assert self.log.log_end_offset == end
        self._compare_after_crash(start)

    @precondition(lambda self: self.task is None)
    @rule()
    def restart(self):
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.storage.restart()
        assert (self.log.log_start_offset, self.log.log_end_offset) == (start, end)
        self._compare_after_crash(start)

    def _compare_after_crash(self, log_start_before: int) -> None:
        """Take over what is left, after having checked that it may be just that."""
        log = self.log
        end = log.log_end_offset
        assert not log.damage
        assert max(self.safe, log.log_start_offset) <= end <= max(len(self.model), log_start_before)
        assert log.log_start_offset <= log_start_before
        assert log.high_watermark == log.durable_offset == end
        if end <= len(self.model):
            assert end in self.borders or end == log.log_start_offset
        del self.model[end:]
        self.model += [b""] * (end - len(self.model))  # below a log start that was kept
        self.borders = {each for each in self.borders if each <= end} | {end}
        self.safe = end
        self.task = None
        self.housekeeping = Housekeeping(self.storage.directory)

    # --- what is read -------------------------------------------------------------------------

    @rule(share=st.floats(-0.2, 1.2), max_bytes=st.integers(1, 2_000))
    def read(self, share, max_bytes):
        log = self.log
        offset = int(share * max(log.log_end_offset, 1))
        try:
            data = log.read(offset, max_bytes, limit=ReadLimit.LOG_END)
        except OffsetOutOfRangeError:
            assert not log.log_start_offset <= offset <= log.log_end_offset
            return
        assert log.log_start_offset <= offset <= log.log_end_offset
        assert bool(data.slices) == (offset < log.log_end_offset)
        if data.slices:
            first = log.read(offset, 1, limit=ReadLimit.LOG_END)
            found = records_of(first)
            assert found[0][0] <= offset <= found[-1][0]
            assert [value for _, value in found] == self.model[found[0][0] : found[-1][0] + 1]

    @invariant()
    def every_record_is_the_models(self):
        log = self.log
        for limit, end in (
            (ReadLimit.HIGH_WATERMARK, log.high_watermark),
            (ReadLimit.LOG_END, log.log_end_offset),
        ):
            start = log.log_start_offset
            assert self.storage.records(limit=limit) == [
                (offset, self.model[offset]) for offset in range(start, end)
            ]

    @invariant()
    def offsets_are_in_order(self):
        self.storage.check_invariants()


class OsPolicyMachine(LogMachine):
    """Flush policy `os`: readers see all at once; what is durable survives all the same."""

    policy = FlushPolicy.OS


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestLogWithPolicyOs = OsPolicyMachine.TestCase
TestLogWithPolicyOs.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)
