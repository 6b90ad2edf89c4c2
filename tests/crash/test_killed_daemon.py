"""Kill -9 of the real daemon under load, with rolls, retention, deletion and compaction on."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.crash.killed_daemon import TOPICS, KilledDaemon
from tests.crash.scale import SCALE

ROUNDS = 30
RECORDS_MIN, RECORDS_MAX = 20, 300
"""So many are acknowledged in a round."""
CLEANING_EACH = 10
"""Of so many rounds one goes on until the cleaner is at it."""


@pytest.mark.timeout(120 + 20 * ROUNDS)
@pytest.mark.parametrize("seed", range(SCALE))
def test_given_a_daemon_under_load_when_killed_again_and_again_then_the_promises_hold(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    with KilledDaemon(tmp_path, seed) as daemon:
        for number in range(ROUNDS):
            try:
                is_long = number % CLEANING_EACH == CLEANING_EACH - 1
                daemon.round(random.randint(RECORDS_MIN, RECORDS_MAX), until_cleaning=is_long)
            except AssertionError as error:
                error.add_note(f"round {number}; {daemon.broker.errors.read_text()[-2_000:]}")
                raise

        assert daemon.broker.stop() == 0
        daemon.broker.start()
        daemon.check()

        assert daemon.acknowledged > 10 * ROUNDS
        assert daemon.seen > 0
        _check_that_all_was_at_work(daemon)


def _check_that_all_was_at_work(daemon: KilledDaemon) -> None:
    """What was to be killed in the middle has happened at all."""
    logs = {
        topic: sorted((daemon.broker.data_directory / f"{topic}-0").glob("*.log"))
        for topic in TOPICS
    }
    assert len(logs["kept"]) > 2, "nothing rolled"
    assert int(logs["short"][0].stem) > 0, "nothing was deleted"
    assert daemon.cleanings > 0, "nothing was compacted"
