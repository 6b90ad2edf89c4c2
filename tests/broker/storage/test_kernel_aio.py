"""KernelAio, on this machine's kernel."""

from __future__ import annotations

import errno
import os
import platform
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.storage.kernel_aio import KernelAio

WAIT_MS = 30_000


@pytest.fixture
def aio() -> Iterator[KernelAio]:
    try:
        made = KernelAio(4)
    except OSError as error:
        pytest.skip(f"NOT TESTED: this machine offers no Linux AIO: {error.strerror}")
    yield made
    made.close()


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    opened = [os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT) for number in range(6)]
    for descriptor in opened:
        os.pwrite(descriptor, b"x" * 10_000, 0)
    yield opened
    for descriptor in opened:
        os.close(descriptor)


def results(aio: KernelAio, count: int) -> list[int]:
    """Wait for so many."""
    poll = select.poll()
    poll.register(aio.event_descriptor, select.POLLIN)
    found: list[int] = []
    while len(found) < count:
        assert poll.poll(WAIT_MS), f"{len(found)} of {count} have ended"
        found += aio.ended()
    return found


def test_given_open_files_when_synced_then_each_ends_without_an_error(
    aio: KernelAio, files: list[int]
):
    assert aio.begin(files[:3]) == 3
    assert results(aio, 3) == [0, 0, 0]


def test_given_rounds_when_one_follows_the_other_then_places_are_used_again(
    aio: KernelAio, files: list[int]
):
    ended = []
    for _ in range(20):
        begun = aio.begin(files[:4])
        ended += results(aio, begun)

    assert ended == [0] * 80


def test_given_nothing_has_ended_when_asked_then_there_is_nothing(aio: KernelAio):
    assert aio.ended() == []


def test_given_a_file_that_cannot_be_synced_when_begun_then_it_is_refused_and_not_failed(
    aio: KernelAio, files: list[int]
):
    reader, writer = os.pipe()

    with pytest.raises(OSError, match=os.strerror(errno.EINVAL)) as refusal:
        aio.begin([writer])

    assert refusal.value.errno == errno.EINVAL
    assert aio.begin(files[:1]) == 1
    assert results(aio, 1) == [0]
    os.close(reader)
    os.close(writer)


def test_given_a_bad_one_behind_good_ones_when_begun_then_the_good_ones_are(
    aio: KernelAio, files: list[int]
):
    reader, writer = os.pipe()

    begun = aio.begin([*files[:2], writer])

    assert (begun, results(aio, 2)) == (2, [0, 0])
    os.close(reader)
    os.close(writer)


def test_given_a_context_when_closed_twice_then_its_descriptor_is_closed_once(
    aio: KernelAio, files: list[int]
):
    aio.begin(files[:1])

    aio.close()
    aio.close()

    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(aio.event_descriptor)


def test_given_more_requests_than_the_machine_allows_when_made_then_it_says_so():
    limit = int(Path("/proc/sys/fs/aio-max-nr").read_text())

    with pytest.raises(OSError, match="are used up") as refusal:
        KernelAio(limit + 1)

    assert refusal.value.errno == errno.EAGAIN


def test_given_a_machine_whose_system_calls_are_unknown_when_made_then_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(platform, "machine", lambda: "vax")

    with pytest.raises(OSError, match="not known on this kind of machine"):
        KernelAio(4)
