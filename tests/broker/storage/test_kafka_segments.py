"""Segments that Kafka wrote, opened with its own indexes: the same answers, no rebuilding."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from broker.storage.os_disk import OsDisk
from tests.support.segments import Workbench

DATA = Path(__file__).resolve().parents[2] / "data" / "kafka-segments"
LOOKUPS = json.loads((DATA / "lookups.json").read_text())
DAMAGED = sorted(path.name for path in (DATA / "damaged").iterdir())


class Partition:
    """A copy of one of them, its segments open."""

    def __init__(self, tmp_path: Path, name: str, damage: str = "") -> None:
        directory = tmp_path / name
        shutil.copytree(DATA / name, directory)
        if damage:
            shutil.copytree(DATA / "damaged" / damage, directory, dirs_exist_ok=True)
        self.lookups = LOOKUPS[name]
        bench = Workbench(disk=OsDisk(), directory=directory)
        self.segments, self.caches = [], []
        for path in sorted(directory.glob("*.log")):
            self.segments.append(bench.open(int(path.stem)))
            self.caches.append(bench.cache)

    def offset_for_timestamp(self, timestamp_ms: int) -> list[int]:
        """R33 over segments, as ListOffsets answers."""
        for segment in self.segments:
            if segment.largest_timestamp() >= timestamp_ms:
                found = segment.offset_for_timestamp(timestamp_ms, self.lookups["earliest"])
                if found is not None:
                    return [found.offset, found.timestamp]
        return [-1, -1]

    def lookups_by_time(self) -> dict[str, list[int]]:
        return {time: self.offset_for_timestamp(int(time)) for time in self.lookups["by_timestamp"]}

    def lookups_by_offset(self) -> dict[tuple[int, int], object]:
        """Every offset of every segment, with those in gaps."""
        return {
            (segment.base_offset, offset): segment.translate_offset(offset)
            for segment in self.segments
            for offset in range(segment.base_offset, segment.next_offset() + 1)
        }

    @property
    def rebuilds(self) -> int:
        return sum(cache.index_rebuilds for cache in self.caches)


def scan(segment, offset):
    """The first batch whose last offset is at or above it, from the headers alone."""
    for position, header in segment.records.batches():
        if header.last_offset >= offset:
            return header.base_offset, position, header.size_bytes
    return None


@pytest.mark.parametrize("name", LOOKUPS)
def test_given_kafkas_indexes_when_looked_up_then_answers_are_kafkas_and_none_is_rebuilt(
    tmp_path, name
):
    """R12, R21, R24, R33: files are byte-compatible, all three magics, cleaned or not."""
    partition = Partition(tmp_path, name)

    by_time, by_offset = partition.lookups_by_time(), partition.lookups_by_offset()

    assert by_time == partition.lookups["by_timestamp"]
    scanned = {
        (segment.base_offset, offset): scan(segment, offset)
        for segment in partition.segments
        for offset in range(segment.base_offset, segment.next_offset() + 1)
    }
    assert by_offset == scanned
    assert partition.segments[-1].next_offset() == partition.lookups["stored_end"]
    assert partition.rebuilds == 0


@pytest.mark.parametrize("name", LOOKUPS)
def test_given_kafkas_segments_when_indexed_anew_then_the_answers_stay(tmp_path, name):
    """R23, R31: rebuilt by recovery or by headers, the indexes answer as Kafka's own."""
    partition = Partition(tmp_path, name)
    before = partition.lookups_by_time(), partition.lookups_by_offset()

    for segment in partition.segments:
        segment.rebuild_indexes()
    rebuilt = partition.lookups_by_time(), partition.lookups_by_offset()
    faults = [segment.recover().fault for segment in partition.segments]
    recovered = partition.lookups_by_time(), partition.lookups_by_offset()

    assert rebuilt == before
    assert recovered == before
    assert set(faults) == {""}


@pytest.mark.parametrize("case", DAMAGED)
def test_given_a_damaged_index_when_looked_up_then_no_answer_changes(tmp_path, case):
    """R17, R21, R33, B3: Kafka answers 64 for offset 36 with the positions of `index-wrong`."""
    sound = Partition(tmp_path / "sound", "victim-0")
    damaged = Partition(tmp_path / "damaged", "victim-0", case)

    by_time, by_offset = damaged.lookups_by_time(), damaged.lookups_by_offset()

    assert by_time == sound.lookups_by_time()
    assert by_offset == sound.lookups_by_offset()
    assert damaged.rebuilds == 1
    assert damaged.lookups_by_time() == by_time  # and once is enough
    assert damaged.rebuilds == 1
