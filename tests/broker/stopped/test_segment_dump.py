"""dump: what a segment's files hold, entry by entry."""

import pytest

from broker.offline import DumpedBatch, DumpedProblem, DumpedRecord, dump_segment
from protocol.checksum import crc32c
from protocol.compression import Codec
from protocol.errors import StoredFormatError
from protocol.legacy_message_set_builder import build_set
from protocol.record import Record
from protocol.record_batch_builder import build_batch
from protocol.stored.index_entries import OffsetIndexEntry, TimeIndexEntry
from tests.support.stored_partition import batches, write_segment


def test_given_a_log_when_dumped_then_batches_have_their_places(tmp_path):
    built = batches(40, [2, 3])
    log = write_segment(tmp_path, built)

    dumped = list(dump_segment(log))

    assert [(one.position, one.base_offset, one.last_offset) for one in dumped] == [
        (0, 40, 41),
        (len(built[0]), 42, 44),
    ]
    assert [(one.magic, one.record_count, one.codec, one.problem) for one in dumped] == [
        (2, 2, "none", ""),
        (2, 3, "none", ""),
    ]
    assert dumped[0].timestamp_type == "CREATE_TIME"
    assert dumped[0].max_timestamp == 1041


def test_given_records_are_wanted_when_dumped_then_they_follow_their_batch(tmp_path):
    log = write_segment(tmp_path, batches(0, [2, 1]))

    dumped = list(dump_segment(log, records=True))

    kinds = [type(one) for one in dumped]
    assert kinds == [DumpedBatch, DumpedRecord, DumpedRecord, DumpedBatch, DumpedRecord]
    record = dumped[2].record
    assert (record.offset, record.timestamp, record.key, record.value) == (
        1,
        1001,
        b"k",
        b"value 1",
    )


def test_given_a_start_offset_when_dumped_then_what_ends_below_is_left_out(tmp_path):
    log = write_segment(tmp_path, batches(0, [3, 3]))

    dumped = list(dump_segment(log, records=True, from_offset=4))

    assert dumped[0].base_offset == 3
    assert [one.record.offset for one in dumped[1:]] == [4, 5]


def test_given_damage_when_dumped_then_it_is_shown_in_its_place(tmp_path):
    log = write_segment(tmp_path, batches(0, [1, 1, 1]))
    data = bytearray(log.read_bytes())
    size = len(data) // 3
    data[size + 65] ^= 1
    log.write_bytes(bytes(data[:-3]))

    dumped = list(dump_segment(log))

    assert [bool(one.problem) for one in dumped] == [False, True, True]
    assert "crc" in dumped[1].problem
    assert dumped[2].problem == "the file ends inside it, 3 bytes are missing"
    assert dumped[2].size_bytes == size - 3


def test_given_rubbish_when_dumped_then_it_is_one_entry_without_a_header(tmp_path):
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(b"\xff" * 100)

    (dumped,) = dump_segment(log, records=True)

    assert (dumped.position, dumped.size_bytes, dumped.base_offset) == (0, 100, None)
    assert dumped.problem


def test_given_a_batch_whose_records_do_not_decode_when_dumped_then_the_rest_goes_on(tmp_path):
    bad = bytearray(build_batch([(0, 0, None, b"x")], codec=Codec.NONE))
    good = build_batch([(1, 0, None, b"y")], base_offset=1)
    bad[61] = 0xFF  # the record's length; the CRC is made to agree
    bad[17:21] = crc32c(bytes(bad[21:])).to_bytes(4, "big")
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(bytes(bad) + good)

    dumped = list(dump_segment(log, records=True))

    kinds = [type(one) for one in dumped]
    assert kinds == [DumpedBatch, DumpedProblem, DumpedBatch, DumpedRecord]


def test_given_legacy_entries_when_dumped_then_wrappers_show_their_inside(tmp_path):
    log = tmp_path / "00000000000000000000.log"
    records = [Record(0, 5, b"a", b"1"), Record(1, 6, None, b"2")]
    log.write_bytes(build_set(records, magic=1, codec=Codec.GZIP))

    dumped = list(dump_segment(log, records=True))

    wrapper = dumped[0]
    assert (wrapper.magic, wrapper.codec, wrapper.record_count) == (1, "gzip", None)
    assert wrapper.last_offset == 1
    assert [one.record.value for one in dumped[1:]] == [b"1", b"2"]


def test_given_indexes_when_dumped_then_entries_are_absolute(tmp_path):
    built = batches(40, [2, 3])
    log = write_segment(tmp_path, built)

    index = list(dump_segment(log.with_suffix(".index")))
    time_index = list(dump_segment(log.with_suffix(".timeindex")))

    assert index == [OffsetIndexEntry(44, len(built[0]))]
    assert time_index == [TimeIndexEntry(1041, 41), TimeIndexEntry(1044, 44)]


@pytest.mark.parametrize(("suffix", "entry_bytes"), [(".index", 8), (".timeindex", 12)])
def test_given_an_entry_below_the_one_before_when_dumped_then_it_is_told(
    tmp_path, suffix, entry_bytes
):
    first, lower = b"\x7f" * entry_bytes, b"\x01" * entry_bytes
    path = tmp_path / f"00000000000000000000{suffix}"
    path.write_bytes(first + lower + b"\0" * entry_bytes)

    entry, problem = dump_segment(path)

    assert isinstance(entry, OffsetIndexEntry | TimeIndexEntry)
    assert isinstance(problem, DumpedProblem)
    assert f"entry 1, at byte {entry_bytes}, is not above" in problem.text


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".txnindex"])
def test_given_a_file_that_is_none_when_dumped_then_the_problem_is_told(tmp_path, suffix):
    path = tmp_path / f"00000000000000000000{suffix}"
    path.write_bytes(b"\xff" * 13)

    (dumped,) = dump_segment(path)

    assert isinstance(dumped, DumpedProblem)


def test_given_another_name_when_dumped_then_it_is_refused(tmp_path):
    (tmp_path / "readme.txt").touch()

    with pytest.raises(StoredFormatError, match="is no segment file"):
        dump_segment(tmp_path / "readme.txt")


def test_given_no_file_when_dumped_then_that_is_said_and_not_that_its_name_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError):
        dump_segment(tmp_path / "readme.txt")
