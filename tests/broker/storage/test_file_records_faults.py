"""FileRecords on a bad disk: failed writes, failed cut-backs, sectors that cannot be read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import StorageError
from tests.support.file_records import LOG, on_fake_disk
from tests.support.log_entries import batch

# --- failed appends ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_given_a_write_that_fails_when_appended_then_the_file_is_as_before(number: int) -> None:
    disk, records = on_fake_disk(b"before")
    disk.short_write(size=3)
    disk.fail("write", OSError(number, "refused"), after=1)

    with pytest.raises(StorageError, match="refused") as caught:
        records.append([b"garbage"], 7)

    assert caught.value.errno == number
    assert records.size_bytes == len(disk.read_file(LOG)) == 6
    assert records.append([b"after"], 5) == 6
    assert disk.read_file(LOG) == b"beforeafter"


def test_given_a_full_disk_when_space_comes_back_then_appending_goes_on() -> None:
    disk, records = on_fake_disk(b"0123456789", space_bytes=15)

    with pytest.raises(StorageError) as caught:
        records.append([b"abc", b"defghi"], 9)
    left = disk.read_file(LOG)
    disk.space_bytes = 100
    records.append([b"abc", b"defghi"], 9)

    assert caught.value.errno == errno.ENOSPC
    assert left == b"0123456789"
    assert disk.read_file(LOG) == b"0123456789abcdefghi"


def test_given_a_cut_back_that_fails_when_appended_again_then_no_garbage_stays_between() -> None:
    disk, records = on_fake_disk(b"before")
    disk.short_write(size=5)
    disk.fail("write", OSError(errno.EIO, "broken"), after=1)
    disk.fail("truncate", OSError(errno.EIO, "broken"), times=2)

    for _ in range(2):  # the append, and then the cut that has to come before the next one
        with pytest.raises(StorageError):
            records.append([b"garbage"], 7)
    records.append([b"x"], 1)

    assert disk.read_file(LOG) == b"beforex"


def test_given_a_cut_back_that_failed_when_closed_then_the_file_is_trimmed() -> None:
    """R11: close trims to the valid size."""
    disk, records = on_fake_disk(b"before")
    disk.short_write(size=5)
    disk.fail("write", OSError(errno.EIO, "broken"), after=1)
    disk.fail("truncate", OSError(errno.EIO, "broken"))
    with pytest.raises(StorageError):
        records.append([b"garbage"], 7)

    records.close()
    disk.sync_directory(Path("/"))
    disk.crash()

    assert disk.read_file(LOG) == b"before"


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.lists(st.binary(max_size=40), max_size=4)),
            st.tuples(st.just("short"), st.integers(0, 30)),
            st.tuples(st.just("full"), st.integers(0, 60)),
            st.tuples(st.just("cut"), st.integers(0, 100)),
            st.tuples(st.just("flush"), st.none()),
        ),
        max_size=20,
    )
)
@settings(max_examples=100)
def test_given_any_appends_on_a_bad_disk_when_read_then_exactly_the_successful_are_there(
    steps: list[tuple[str, list[bytes] | int | None]],
) -> None:
    """R7, R11: against a list of bytes as the model."""
    disk, records = on_fake_disk()
    expected = b""

    for name, argument in steps:
        if name == "append" and isinstance(argument, list):
            data = b"".join(argument)
            try:
                position = records.append(argument, len(data))
            except StorageError:
                continue
            assert position == len(expected)
            expected += data
        elif name == "short" and isinstance(argument, int):
            disk.short_write(size=argument)
        elif name == "full" and isinstance(argument, int):
            disk.space_bytes = len(expected) + argument
        elif name == "cut" and isinstance(argument, int):
            size = min(argument, len(expected))
            assert records.truncate_to(size) == len(expected) - size
            expected = expected[:size]
        else:
            records.flush()
            assert not records.has_unflushed
        assert disk.read_file(LOG) == expected
        assert records.size_bytes == len(expected)


def test_given_a_bad_sector_when_read_then_it_is_an_error_of_this_set_only() -> None:
    disk, records = on_fake_disk(batch(0).data)
    disk.fail("read", OSError(errno.EIO, "bad sector"), times=4)

    for read in (
        lambda: records.read_bytes(0, 1),
        lambda: records.read_into(memoryview(bytearray(1)), 0),
        lambda: records.search_for(0),
        lambda: list(records.batches()),
    ):
        with pytest.raises(StorageError) as caught:
            read()
        assert caught.value.errno == errno.EIO
    assert records.read_bytes(0, 61) == batch(0).data
