"""WarmSlices: the kernel is asked once for what several readers fetch within moments."""

from types import SimpleNamespace

import pytest

from broker.requests.warm_slices import JUST_WRITTEN_BYTES, WARM_S, WarmSlices


class Piece:
    """A slice that counts how often it was asked for, and says what it is told to."""

    def __init__(self, *, size_bytes=1000, cold=False, sealed=True, file_bytes=10_000_000):
        self.records = SimpleNamespace(is_sealed=sealed, size_bytes=file_bytes)
        self.position, self.size_bytes = 5_000, size_bytes
        self.cold, self.asked = cold, 0

    def is_cold(self):
        self.asked += 1
        return self.cold


@pytest.fixture
def clock():
    return SimpleNamespace(now_s=100.0)


@pytest.fixture
def slices(clock):
    return WarmSlices(lambda: clock.now_s)


def test_given_a_warm_slice_when_asked_again_soon_then_the_kernel_is_not(slices):
    piece = Piece()

    answers = [slices.is_cold(piece) for _ in range(3)]

    assert answers == [False] * 3
    assert piece.asked == 1


def test_given_a_warm_slice_when_moments_have_passed_then_the_kernel_is_asked_again(slices, clock):
    piece = Piece()

    slices.is_cold(piece)
    clock.now_s += WARM_S
    slices.is_cold(piece)

    assert piece.asked == 2


def test_given_a_longer_slice_from_the_same_start_when_asked_then_the_kernel_is_too(slices):
    piece = Piece(size_bytes=1000)

    slices.is_cold(piece)
    piece.size_bytes, piece.cold = 1001, True

    assert slices.is_cold(piece)


def test_given_a_cold_slice_when_asked_then_it_is_not_remembered_as_warm(slices):
    piece = Piece(cold=True)

    answers = [slices.is_cold(piece) for _ in range(2)]

    assert answers == [True, True]
    assert piece.asked == 2


def test_given_what_was_just_written_when_asked_then_the_kernel_is_not(slices):
    end = 5_000 + JUST_WRITTEN_BYTES
    just_written = Piece(sealed=False, cold=True, file_bytes=end)
    before = Piece(sealed=False, cold=True, file_bytes=end + 1)

    assert not slices.is_cold(just_written)
    assert slices.is_cold(before)
