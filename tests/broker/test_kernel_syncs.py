"""KernelSyncs: rounds of syncs on an event loop, by a context that does what the test says."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

import pytest

from broker import kernel_syncs
from broker.kernel_syncs import KernelSyncs
from broker.storage.kernel_aio import KernelAio
from tests.support.manual_loop import ManualLoop


class FakeAio:
    """Ends requests by `end`; takes as many as `takes` says, or refuses with an error."""

    def __init__(self) -> None:
        self.event_descriptor = os.eventfd(0, os.EFD_NONBLOCK)
        self.requests_max = 4
        self.takes = 4
        self.refusal: OSError | None = None
        self.begun: list[list[int]] = []
        self.is_closed = False
        self.loss: OSError | None = None
        """Why results cannot be had any more."""
        self._results: list[int] = []

    def begin(self, descriptors: Sequence[int]) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.begun.append(list(descriptors[: self.takes]))
        return len(self.begun[-1])

    def end(self, *results: int) -> None:
        self._results += results
        os.eventfd_write(self.event_descriptor, 1)

    def ended(self) -> list[int]:
        os.eventfd_read(self.event_descriptor)
        if self.loss is not None:
            raise self.loss
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        self.is_closed = True


class Rounds:
    """Syncs on a loop by hand, and how each round ended."""

    def __init__(self) -> None:
        self.loop, self.aio = ManualLoop(), FakeAio()
        self.syncs = KernelSyncs(self.loop, self.aio)
        self.ended: list[OSError | None] = []

    def begin(self, *descriptors: int) -> int:
        return self.syncs.begin(descriptors, self.ended.append)

    def end(self, *results: int) -> None:
        self.aio.end(*results)
        self.loop.turn()
        self.loop.settle()


@pytest.fixture
def rounds() -> Iterator[Rounds]:
    made = Rounds()
    yield made
    made.loop.close()
    os.close(made.aio.event_descriptor)


def test_given_some_files_when_the_last_is_synced_then_the_round_has_ended_once(rounds: Rounds):
    begun = rounds.begin(7, 8, 9)

    rounds.end(0)
    in_between = list(rounds.ended)
    rounds.end(0, 0)
    rounds.end()  # an event of one that was collected with another

    assert (begun, in_between, rounds.ended) == (3, [], [None])


def test_given_a_failed_sync_when_the_others_have_ended_too_then_the_first_error_is_told(
    rounds: Rounds,
):
    rounds.begin(7, 8, 9)

    rounds.end(errno.EIO)
    rounds.end(errno.ENOSPC, 0)

    assert [error and error.errno for error in rounds.ended] == [errno.EIO]


def test_given_a_round_that_failed_when_the_next_does_not_then_nothing_is_said_of_it(
    rounds: Rounds,
):
    rounds.begin(7)
    rounds.end(errno.EIO)

    rounds.begin(7)
    rounds.end(0)

    assert [error and error.errno for error in rounds.ended] == [errno.EIO, None]


def test_given_results_that_cannot_be_had_when_collected_then_the_round_has_failed(
    rounds: Rounds,
):
    rounds.begin(7, 8)
    rounds.aio.loss = OSError(errno.EINVAL, "Invalid argument")

    rounds.end(0)

    assert rounds.ended == [rounds.aio.loss]  # nobody waits for ever, and nothing is acknowledged


def test_given_more_files_than_fit_when_begun_then_the_first_ones_are(rounds: Rounds):
    begun = rounds.begin(1, 2, 3, 4, 5, 6)

    assert (begun, rounds.aio.begun) == (4, [[1, 2, 3, 4]])


def test_given_a_kernel_with_no_room_when_begun_then_nothing_is_and_the_next_round_tries_again(
    rounds: Rounds,
):
    rounds.aio.takes = 0
    refused = rounds.begin(7)
    rounds.aio.takes = 4

    assert (refused, rounds.begin(7)) == (0, 1)


def test_given_a_kernel_that_knows_no_syncs_when_begun_then_it_is_never_asked_again(
    rounds: Rounds,
):
    rounds.aio.refusal = OSError(errno.EINVAL, "Invalid argument")
    first = rounds.begin(7)
    rounds.aio.refusal = None

    assert (first, rounds.begin(7), rounds.aio.begun) == (0, 0, [])
    assert rounds.aio.is_closed
    assert rounds.ended == []  # of a sync that never began nothing is to be said


def test_given_a_sync_under_way_when_closed_then_nobody_waits_for_the_disk(rounds: Rounds):
    rounds.begin(7)

    rounds.syncs.close()
    rounds.syncs.close()

    assert not rounds.aio.is_closed
    assert rounds.begin(7) == 0


def test_given_a_machine_without_aio_when_opened_then_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
):
    def refuse(requests_max: int) -> KernelAio:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(kernel_syncs, "KernelAio", refuse)

    assert KernelSyncs.opened(ManualLoop()) is None
