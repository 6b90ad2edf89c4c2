"""LogScan: how much of a file it holds, whatever lengths say; and what the last batches are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import LENGTH_POSITION, LOG_OVERHEAD_BYTES
from tidelog.segments import log_scan, resync
from tidelog.segments.file_window import FileWindow
from tidelog.segments.log_scan import SoundBatches, Wound, scan

CHUNK_BYTES = 1_000


class WatchedWindow(FileWindow):
    """Knows how much it held at most."""

    held_bytes_max = 0

    def fill(self, size_bytes_min: int = 0) -> bool:
        is_more = super().fill(size_bytes_min)
        self.held_bytes_max = max(self.held_bytes_max, len(self.data))
        return is_more


def scanned(data: bytes, limit_offset: int | None = None) -> tuple[list[int], list[Wound], int]:
    """Return base offsets, wounds, and how many bytes were held at once."""
    window = WatchedWindow(pa.BufferReader(data), 0, len(data), CHUNK_BYTES)
    offsets, wounds = [], []
    for section in scan(window, end_position=len(data), first_offset=0, limit_offset=limit_offset):
        if isinstance(section, SoundBatches):
            offsets += section.table["base_offset"].tolist()
        else:
            assert isinstance(section, Wound)
            wounds.append(section)
    return offsets, wounds, window.held_bytes_max


def batches(step: int) -> list[bytes]:
    return [
        build_batch([(step * n, 5, b"k", bytes(500))], base_offset=step * n) for n in range(200)
    ]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("number", [0, 3, 4])
@pytest.mark.parametrize("length", [9_000, 60_000, 2**31 - 1])
def test_given_a_length_that_is_wrong_when_scanned_then_little_is_held_and_one_batch_is_missing(
    monkeypatch, step, number, length
):
    for module in (log_scan, resync):
        monkeypatch.setattr(module, "BATCH_BYTES_MAX", 10_000)
    made = batches(step)
    wrong = bytearray(made[number])
    wrong[LENGTH_POSITION:LOG_OVERHEAD_BYTES] = length.to_bytes(4, "big")
    made[number] = bytes(wrong)

    offsets, wounds, held_bytes_max = scanned(b"".join(made))

    assert offsets == [step * n for n in range(200) if n != number]
    assert [wound.first_offset for wound in wounds] == [max(0, step * (number - 1) + 1)]
    assert held_bytes_max < 25_000


@pytest.mark.parametrize("torn_bytes", [1, 17, 40, 60, 61, 70])
def test_given_a_gap_before_the_last_whole_batch_when_scanned_then_it_counts(torn_bytes):
    made = [build_batch([(n, 5, b"k", b"v" * 20)], base_offset=n) for n in (0, 1, 9, 10)]

    offsets, (wound,), _ = scanned(b"".join(made[:3]) + made[3][:torn_bytes])

    assert offsets == [0, 1, 9]
    assert (wound.position, wound.first_offset) == (sum(map(len, made[:3])), 10)


def test_given_a_length_that_reaches_over_the_next_batch_when_scanned_then_that_is_not_lost():
    made = batches(1)
    size = len(made[0])
    wrong = bytearray(made[3])
    wrong[LENGTH_POSITION:LOG_OVERHEAD_BYTES] = (2 * size - LOG_OVERHEAD_BYTES).to_bytes(4, "big")

    offsets, (wound,), _ = scanned(b"".join([*made[:3], wrong, *made[4:]]))

    assert offsets == [n for n in range(200) if n != 3]
    assert (wound.position, wound.end_position) == (3 * size, 4 * size)


@pytest.mark.parametrize("offset", [200, 201])
def test_given_an_offset_of_what_comes_next_when_scanned_then_it_does_not_belong_there(offset):
    made = [*batches(1)[:199], build_batch([(offset, 5, b"k", b"v")], base_offset=offset)]

    offsets, (wound,), _ = scanned(b"".join(made), limit_offset=200)

    assert offsets == list(range(199))
    assert (wound.first_offset, wound.end_offset) == (199, 200)
    assert wound.reason == f"offsets {offset} to {offset} do not belong here"
