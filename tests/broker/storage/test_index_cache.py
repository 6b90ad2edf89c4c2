"""IndexCache: sealed indexes in memory, bounded in bytes."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from broker.storage.file_handles import FileHandles
from broker.storage.index_cache import IndexCache, IndexEntries
from broker.storage.offset_index import OffsetIndex
from broker.storage.time_index import TimeIndex
from tests.support.fake_disk import FakeDisk


def entries(count):
    return IndexEntries(array("i", range(count)), array("i", range(count)))


def test_given_more_than_the_bound_when_put_then_the_least_recently_used_goes():
    """The bound is in bytes: eight for an entry of an offset index."""
    cache = IndexCache(size_bytes_max=240)
    for name in ("first", "second", "third"):
        cache.put(name, entries(10))
    cache.get("first")

    cache.put("fourth", entries(10))

    assert cache.get("second") is None
    assert [cache.get(name) is not None for name in ("first", "third", "fourth")] == [True] * 3
    assert cache.size_bytes == 240


def test_given_one_larger_than_the_bound_when_put_then_it_is_kept_alone():
    """Reading it again for each look-up would be worse."""
    cache = IndexCache(size_bytes_max=100)
    cache.put("small", entries(5))

    cache.put("large", entries(1000))

    assert len(cache) == 1
    assert cache.get("large") is not None


def test_given_an_index_when_put_again_or_forgotten_then_the_bytes_are_right():
    cache = IndexCache()
    cache.put("index", entries(10))

    cache.put("index", entries(20))
    size_bytes = cache.size_bytes
    cache.forget("index")
    cache.forget("index")

    assert size_bytes == 160
    assert cache.size_bytes == 0


def test_given_a_small_cache_when_many_sealed_indexes_are_used_then_all_answer():
    """Sealed indexes are read when asked for, and again when they were pushed out."""
    disk = FakeDisk()
    handles, cache = FileHandles(disk), IndexCache(size_bytes_max=50)
    indexes = []
    for base in range(0, 1000, 100):
        index = OffsetIndex.open(
            handles, Path(f"/{base}.index"), base, 800, active=True, cache=cache, create=True
        )
        for number in range(5):
            index.append(base + number, base + number + 1)
        index.seal()
        indexes.append(index)

    found = [index.lookup(index.base_offset + 3).position for index in indexes * 2]

    assert found == [index.base_offset + 4 for index in indexes * 2]
    assert cache.size_bytes <= 50


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_given_a_file_when_first_looked_up_then_it_is_not_decoded_as_a_whole(kind, monkeypatch):
    """Of a segment of 1 GiB that was 8 to 24 ms, on the event loop."""
    handles, path = FileHandles(FakeDisk()), Path("/p.index")
    index = kind.open(handles, path, 0, 6_000, active=True, create=True, cache=IndexCache())
    for number in range(1, 400):
        index.append(10 * number, 10 * number)
    index.close()
    monkeypatch.setattr(kind, "_decode", lambda data: pytest.fail("all of it was decoded"))

    sealed = kind.open(handles, path, 0, 6_000, active=False, cache=IndexCache())

    assert sealed.lookup(3_456)[0] == 3_450
    assert sealed.last_entry[0] == 3_990
    assert sealed.entries == 399
