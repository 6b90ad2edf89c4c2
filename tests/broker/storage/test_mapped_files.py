"""Mapped files: few, whole, and not resident for long."""

from __future__ import annotations

import mmap
from pathlib import Path

from broker.storage import mapped_files as module
from broker.storage.mapped_files import MAPPING_STEP_BYTES, MappedFiles
from broker.storage.os_disk import OsDisk
from tests.support.fake_disk import FakeDisk


def test_given_a_growing_file_when_mapped_then_only_whole_steps_are(tmp_path: Path) -> None:
    file = OsDisk().open(tmp_path / "a", create=True)
    file.truncate(2 * MAPPING_STEP_BYTES + 5)
    mapped_files = MappedFiles(4)

    def mapped_bytes(size_bytes: int) -> int:
        return len(mapped_files.mapping("key", size_bytes, lambda: file, is_sealed=False))

    sizes = [mapped_bytes(size) for size in (5, MAPPING_STEP_BYTES, 2 * MAPPING_STEP_BYTES + 5)]

    assert sizes == [0, MAPPING_STEP_BYTES, 2 * MAPPING_STEP_BYTES]


def test_given_a_sealed_file_when_mapped_twice_then_it_is_mapped_whole_and_once(
    tmp_path: Path,
) -> None:
    file = OsDisk().open(tmp_path / "a", create=True)
    file.write([b"abcdef"], 0)
    mapped_files = MappedFiles(4)

    first = mapped_files.mapping("key", 6, lambda: file, is_sealed=True)
    file.close()
    second = mapped_files.mapping("key", 6, lambda: file, is_sealed=True)

    assert bytes(first) == b"abcdef"
    assert second is first


def test_given_many_files_when_mapped_then_few_stay_and_views_outlive_them(tmp_path: Path) -> None:
    disk = OsDisk()
    mapped_files = MappedFiles(2)
    views = []
    for number in range(6):
        file = disk.open(tmp_path / str(number), create=True)
        file.write([b"%d" % number * 3], 0)
        mapping = mapped_files.mapping(number, 3, lambda file=file: file, is_sealed=True)  # type: ignore[misc]
        views.append(mapping[1:])
        del mapping
        file.close()

    mapped_files.forget(5)

    assert len(mapped_files) == 1
    assert [bytes(view) for view in views] == [b"%d" % number * 2 for number in range(6)]


def test_given_no_mappings_allowed_when_mapped_then_the_answer_is_empty() -> None:
    file = FakeDisk().open(Path("/a"), create=True)

    mapping = MappedFiles(0).mapping("key", 100, lambda: file, is_sealed=True)

    assert len(mapping) == 0


def resident_pages(path: Path) -> int:
    """Return how many pages of a mapped file are in the page table of this process."""
    total = 0
    with Path("/proc/self/smaps").open() as lines:
        is_ours = False
        for line in lines:
            if line[0] in "0123456789abcdef" and "-" in line.split(" ", 1)[0]:
                is_ours = line.rstrip().endswith(f" {path}")
            elif is_ours and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024 // mmap.PAGESIZE
    return total


def test_given_much_lent_when_more_is_then_the_pages_are_given_back_and_the_bytes_stay(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(module, "LENT_BYTES_MAX", 100 * mmap.PAGESIZE)
    content = bytes(range(256)) * (100 * mmap.PAGESIZE // 256)
    file = OsDisk().open(tmp_path / "resident", create=True)
    file.write([content], 0)
    mapped_files = MappedFiles(4)
    mapping = mapped_files.mapping("key", len(content), lambda: file, is_sealed=True)
    assert bytes(mapping) == content

    mapped_files.lend("key", 99 * mmap.PAGESIZE)
    before = resident_pages(file.path)
    mapped_files.lend("key", mmap.PAGESIZE)
    after = resident_pages(file.path)

    assert (before, after) == (100, 0)
    assert bytes(mapping) == content
