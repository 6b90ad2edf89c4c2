"""A log that one process recovers and another opens: what the facts carry, and what they do not."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from random import Random

import pytest

from broker.storage.log_config import LogConfig
from broker.storage.log_directory import LogDirectory
from broker.storage.log_plan import log_sizes, tail_bytes
from broker.storage.log_recovery import recover_log
from broker.storage.recovery import Hints
from protocol.errors import CorruptMessageError, StorageError
from tests.support.fake_disk import SimulatedCrash
from tests.support.log_storage import PARTITION, ROOT, TOPIC_ID, LogStorage

CONFIG = LogConfig(segment_bytes=7_000, index_interval_bytes=500, segment_index_bytes=4_096)
"""A hundred batches to a segment."""


@dataclass
class Killed:
    """A partition as kill -9 has left it."""

    storage: LogStorage

    def begin(self) -> LogDirectory:
        self.storage.directory = LogDirectory.open(
            self.storage.disk, ROOT, self.storage.clock, lambda topic: CONFIG,
            self.storage.options, topic_id_of=lambda topic: TOPIC_ID, load=False,
        )  # fmt: skip
        return self.storage.directory

    def recover_elsewhere(self):
        """Recover as a worker does: plan and facts travel as bytes."""
        directory = self.begin()
        plan = pickle.loads(pickle.dumps(directory.plans[PARTITION]))
        storage = self.storage
        facts = recover_log(storage.disk, storage.clock, storage.options, plan)
        return directory, pickle.loads(pickle.dumps(facts))


@pytest.fixture
def killed() -> Killed:
    storage = LogStorage(CONFIG)
    for number in range(250):
        storage.append(b"%d" % (number % 10))
    storage.flush()
    storage.disk.kill()
    return Killed(storage)


def log_bytes_read(operations) -> int:
    return sum(
        each.size for each in operations if each.name == "read" and each.path.suffix == ".log"
    )


def test_given_a_recovered_log_when_opened_from_the_facts_then_it_is_not_walked_again(killed):
    directory, facts = killed.recover_elsewhere()
    before = len(killed.storage.disk.operations)

    directory.load({killed.storage.path: facts})

    operations = killed.storage.disk.operations[before:]
    assert killed.storage.log.log_end_offset == 250
    assert [offset for offset, _ in killed.storage.records()] == list(range(250))
    assert directory.summary.checked_bytes == facts.checked_bytes > 17_000
    assert {each.path.name for each in operations if each.name == "read"} >= {
        "00000000000000000200.log"  # the active segment's end
    }
    assert not [each for each in operations if each.path.name == "00000000000000000000.log"
                and each.name == "read"]  # fmt: skip
    killed.storage.check_invariants()


def test_given_a_recovered_log_when_opened_from_the_facts_then_it_is_as_one_recovered_here(killed):
    here = LogStorage(CONFIG)
    for number in range(250):
        here.append(b"%d" % (number % 10))
    here.flush()
    here.kill()
    directory, facts = killed.recover_elsewhere()

    directory.load({killed.storage.path: facts})

    assert killed.storage.names() == here.names()
    for storage in (here, killed.storage):
        storage.append(b"more")
        storage.flush()
    assert killed.storage.records() == here.records()
    assert killed.storage.restart().log_end_offset == 251


def test_given_a_torn_tail_when_recovered_elsewhere_then_it_is_cut_and_told(killed):
    name = killed.storage.path / "00000000000000000200.log"
    file = killed.storage.disk.open(name)
    file.write([b"\0" * 33], file.size())
    file.close()

    directory, facts = killed.recover_elsewhere()
    directory.load({killed.storage.path: facts})

    assert directory.summary.cut_bytes == facts.cut_bytes == 33
    assert len(killed.storage.records()) == 250


def test_given_damage_when_recovered_elsewhere_then_reads_inside_are_refused_and_others_go_on(
    killed,
):
    name = killed.storage.path / "00000000000000000200.log"
    file = killed.storage.disk.open(name)
    file.write([b"\xff"], 70 * 10 + 65)
    file.close()

    directory, facts = killed.recover_elsewhere()
    directory.load({killed.storage.path: facts})

    log = killed.storage.log
    assert [each.first_offset for each in log.damage] == [210]
    with pytest.raises(CorruptMessageError):
        log.read(210, 1)
    assert log.read(211, 1).size_bytes == 70
    assert any(each.endswith(".quarantine") for each in killed.storage.names())


def test_given_a_log_that_changed_meanwhile_when_opened_from_the_facts_then_it_is_recovered_here(
    killed,
):
    directory, facts = killed.recover_elsewhere()
    file = killed.storage.disk.open(killed.storage.path / "00000000000000000200.log")
    file.truncate(70 * 49)
    file.close()

    directory.load({killed.storage.path: facts})

    log = killed.storage.log
    assert [each.first_offset for each in log.damage] == [249]  # it was promised
    assert log.read(248, 1).size_bytes == 70


def test_given_a_log_whose_file_is_gone_when_opened_from_the_facts_then_the_others_can_start(
    killed,
):
    directory, facts = killed.recover_elsewhere()
    killed.storage.disk.unlink(killed.storage.path / "00000000000000000200.log")

    directory.load({killed.storage.path: facts})

    assert list(directory.unavailable) == [PARTITION]


def test_given_a_log_that_could_not_be_recovered_when_loaded_then_it_is_not_available(killed):
    directory = killed.begin()

    directory.load({killed.storage.path: StorageError("it died")})

    assert directory.unavailable == {PARTITION: "it died"}
    directory.close()
    assert killed.storage.restarted().log_end_offset == 250  # the next start may


@pytest.mark.parametrize("seed", range(5))
def test_given_a_crash_in_the_middle_of_a_recovery_elsewhere_then_the_next_one_finishes_it(
    killed, seed
):
    random = Random(seed)
    directory = killed.begin()
    storage = killed.storage
    storage.disk.crash_after(random.randrange(12))
    with suppress(SimulatedCrash):
        recover_log(storage.disk, storage.clock, storage.options, directory.plans[PARTITION])

    storage.crash(random)

    assert [offset for offset, _ in storage.records()] == list(range(250))


def test_given_a_recovery_point_when_planned_then_segments_below_it_are_no_tail(killed):
    directory = killed.begin()
    sizes = log_sizes(killed.storage.disk, killed.storage.path)

    assert sizes == {0: 7_000, 100: 7_000, 200: 3_500}
    for recovery_point, tail in ((0, 17_500), (99, 17_500), (100, 10_500), (250, 3_500)):
        assert tail_bytes(sizes, Hints(False, recovery_point, 0, 250)) == tail
    assert tail_bytes(sizes, Hints(True, 0, 0, 250)) == 0
    assert directory.plans[PARTITION].tail_bytes > 0


def test_given_rolls_when_killed_then_the_recovery_point_keeps_the_tail_short():
    """Checkpointed at each roll, so that an unclean start reads the last segment, not all."""
    storage = LogStorage(CONFIG)
    for number in range(1_050):
        storage.append(b"%d" % (number % 10))
        if number % 100 == 0:
            storage.flush()
            storage.directory.checkpoint()
    storage.flush()
    storage.disk.kill()
    before = len(storage.disk.operations)

    storage.open()

    assert storage.log.log_end_offset == 1_050
    assert storage.directory.summary.checked_bytes <= 7_000 + 3_500
    touched = {each.path.name for each in storage.disk.operations[before:] if each.name == "open"}
    assert "00000000000000000000.log" not in touched
