"""Damage: told with file, position and offsets; skipped without a wrong record or a lost one."""

from __future__ import annotations

import logging
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.checksum import crc32c
from protocol.compression import Codec
from protocol.legacy_message_set_builder import build_set
from protocol.record import Record
from protocol.record_batch_builder import build_batch
from protocol.record_batch_header import (
    ATTRIBUTES_POSITION,
    CRC,
    CRC_POSITION,
    HEADER_BYTES,
    MAGIC_POSITION,
)
from tests.support.damaged_kafka_logs import CASES, laid_out, true_records
from tests.support.segment_logs import write_partition
from tidelog.segments.columns import COLUMNS, HEADERS
from tidelog.segments.decoding import decode_batches
from tidelog.segments.errors import DamagedError
from tidelog.segments.location import locate
from tidelog.segments.log_files import list_partitions
from tidelog.segments.plan import plan
from tidelog.segments.reader import ReadOptions, read_split, read_table

COUNT = 4
BATCHES = 12
END = COUNT * BATCHES


def log_of(codec: Codec = Codec.NONE) -> list[bytes]:
    return [
        build_batch(
            [(n, 10**12 + n, b"k%d" % n, b"v" * (7 * n % 90)) for n in range(base, base + COUNT)],
            base_offset=base,
            codec=codec,
        )
        for base in range(0, END, COUNT)
    ]


def read_rows(
    directory: Path, *, split_bytes: int = 1 << 20, start: int = 0, **options
) -> list[dict]:
    """Read all offsets of a log whose end is known, as it is where a high watermark is."""
    location = locate(directory)
    (files,) = list_partitions(location)
    made = ReadOptions(**options)
    return [
        row
        for split in plan(location, files, start, END, split_bytes=split_bytes)
        for rows in read_split(location, split, made)
        for row in rows.to_pylist()
    ]


@settings(max_examples=50, deadline=None)
@given(
    codec=st.sampled_from([Codec.NONE, Codec.ZSTD]),
    place=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
    split_bytes=st.sampled_from([400, 1 << 20]),
    chunk_bytes=st.sampled_from([150, 4096]),
)
def test_given_a_flipped_bit_when_read_then_it_is_told_and_all_else_is_read(
    tmp_path_factory, codec, place, bit, split_bytes, chunk_bytes
):
    directory = tmp_path_factory.mktemp("log") / "logs-0"
    batches = log_of(codec)
    sound = b"".join(batches)
    (path,) = [write_partition(directory, [batches]) / f"{0:020}.log"]
    position = int(place * len(sound))
    data = bytearray(sound)
    data[position] ^= 1 << bit
    path.write_bytes(data)
    starts = [len(b"".join(batches[:n])) for n in range(BATCHES)]
    number = max(n for n in range(BATCHES) if starts[n] <= position)
    begin, hidden = starts[number], set(range(COUNT * number, COUNT * (number + 1)))
    settings_ = {"split_bytes": split_bytes, "chunk_bytes": chunk_bytes}
    true = {n: (b"k%d" % n, b"v" * (7 * n % 90)) for n in range(END)}
    if (
        12 <= position - begin < 16
    ):  # the leader epoch: nobody's checksum covers it, no reader cares
        assert [row["offset"] for row in read_rows(directory, **settings_)] == list(range(END))
        return
    is_last = number == BATCHES - 1
    if is_last and position - begin < 8:  # its own offset: nothing behind it contradicts it
        return

    with pytest.raises(DamagedError) as told:
        read_rows(directory, **settings_)
    skipped = read_rows(directory, on_corrupt="skip", **settings_)
    tagged = read_rows(directory, on_corrupt="tag", columns=(*COLUMNS, HEADERS), **settings_)

    error = told.value
    assert (error.path, error.position, error.first_offset) == (str(path), begin, min(hidden))
    assert error.end_offset in ({max(hidden) + 1, None} if is_last else {max(hidden) + 1})
    found = {row["offset"]: (row["key"], row["value"]) for row in skipped}
    assert found == {n: fields for n, fields in true.items() if n not in hidden}
    assert len(found) == len(skipped)
    for start in (number * COUNT, number * COUNT + 1):
        later = read_rows(directory, start=start, on_corrupt="skip", **settings_)
        assert [row["offset"] for row in later] == [n for n in sorted(found) if n >= start]
    (row,) = [row for row in tagged if row["corrupt"] is not None]
    assert (row["offset"], row["key"], row["value"], row["topic"]) == (
        min(hidden),
        None,
        None,
        "logs",
    )
    assert f"{path} is damaged at byte {begin} (offsets {min(hidden)} to" in row["corrupt"]
    assert [row["offset"] for row in tagged if row["corrupt"] is None] == sorted(found)


@pytest.mark.parametrize("number", range(1, BATCHES - 1))
def test_given_a_batch_with_the_offset_of_another_when_read_then_it_is_told_wherever_a_split_begins(
    tmp_path, number
):
    batches = log_of()
    taken = list(range(0, END, COUNT))
    for offset in {taken[number - 1], taken[number - 1] + 1, taken[number + 1], END + 1_000}:
        wrong = [*batches]
        wrong[number] = offset.to_bytes(8, "big") + batches[number][8:]
        directory = tmp_path / f"{offset}" / "logs-0"
        path = write_partition(directory, [batches]) / f"{0:020}.log"
        path.write_bytes(b"".join(wrong))
        for split_bytes in (100, 400, 1 << 20):
            with pytest.raises(DamagedError) as told:
                read_rows(directory, split_bytes=split_bytes)
            rows = read_rows(directory, split_bytes=split_bytes, on_corrupt="skip")

            assert told.value.first_offset == taken[number]
            hidden = range(taken[number], taken[number] + COUNT)
            assert [row["offset"] for row in rows] == [n for n in range(END) if n not in hidden]
            assert all(row["key"] == b"k%d" % row["offset"] for row in rows)


@pytest.mark.parametrize("asked", [24, 26])
def test_given_a_fetch_with_an_offset_twice_when_decoded_then_the_batch_that_was_asked_for_is_right(
    asked,
):
    first, second = log_of()[6:8]
    data = first + (24).to_bytes(8, "big") + second[8:]
    aim = {"topic": "logs", "partition": 0, "start_offset": asked, "where": "an answer"}

    rows, _ = decode_batches(data, options=ReadOptions(on_corrupt="skip"), **aim)

    assert rows["key"].to_pylist() == [b"k%d" % n for n in range(asked, 28)]
    with pytest.raises(DamagedError, match="offsets 24 to 27 do not belong here"):
        decode_batches(data, options=ReadOptions(), **aim)


@pytest.mark.parametrize("case", sorted(CASES.keys() - {"segment-missing", "deleted-leftover"}))
def test_given_kafkas_wounded_log_when_skipped_then_no_wrong_record_and_few_are_lost(
    tmp_path, case
):
    partition = CASES[case]["partition"]
    directory = laid_out(case, "clean", tmp_path)
    true = true_records(partition)

    table = read_table(directory / partition, on_corrupt="skip", chunk_bytes=512)

    times = table["timestamp"].cast("int64").to_pylist()
    found = {
        offset: (time // 1000, key, value)
        for offset, time, key, value in zip(
            table["offset"].to_pylist(),
            times,
            table["key"].to_pylist(),
            table["value"].to_pylist(),
            strict=True,
        )
    }
    assert len(found) == table.num_rows
    assert all(true[offset] == record for offset, record in found.items())
    wounded = case.startswith(("bitflip", "zeroed", "torn"))
    assert len(true) * 0.7 < len(found) < len(true) if wounded else len(found) == len(true)


def test_given_a_batch_as_a_records_value_when_the_one_around_it_is_damaged_then_it_is_not_read(
    tmp_path,
):
    inside = build_batch([(n, 0, b"wrong", None) for n in (1, 2)], base_offset=1)
    outer = bytearray(build_batch([(n, 0, None, inside) for n in range(4)]))
    outer[HEADER_BYTES] ^= 1
    behind = build_batch([(4, 0, b"right", None)], base_offset=4)
    directory = write_partition(tmp_path / "logs-0", [[bytes(outer), behind]])

    assert [row["key"] for row in read_rows(directory, on_corrupt="skip")] == [b"right"]


def test_given_a_right_crc_over_wrong_records_when_read_then_that_batch_is_the_wound(tmp_path):
    batches = log_of()
    wrong = bytearray(batches[3])
    wrong[HEADER_BYTES] = 126
    CRC.pack_into(wrong, CRC_POSITION, crc32c(memoryview(wrong)[ATTRIBUTES_POSITION:]))
    batches[3] = bytes(wrong)
    directory = write_partition(tmp_path / "logs-0", [batches])

    with pytest.raises(DamagedError, match=r"offsets 12 to 15\): its records cannot be decoded"):
        read_rows(directory)
    offsets = [row["offset"] for row in read_rows(directory, on_corrupt="skip")]
    assert offsets == [n for n in range(END) if not 12 <= n < 16]


def test_given_a_torn_batch_in_a_sealed_segment_when_read_then_it_is_damage_up_to_the_next(
    tmp_path,
):
    batches = log_of()
    write_partition(tmp_path / "logs-0", [batches[:3], batches[3:]])
    path = tmp_path / "logs-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(DamagedError, match=r"offsets 8 to 11\): it is cut"):
        read_table(tmp_path)
    assert read_table(tmp_path, on_corrupt="skip").num_rows == END - COUNT


def test_given_a_wound_outside_of_what_is_asked_for_when_read_then_it_is_no_error(tmp_path):
    batches = log_of()
    batches[3] = batches[3][:-1] + b"\xff"
    write_partition(tmp_path / "logs-0", [batches])

    for start, end in ((0, 12), (16, END)):
        table = read_table(tmp_path, start_offset=start, end_offset=end)
        assert table["offset"].to_pylist() == list(range(start, end))
    with pytest.raises(DamagedError):
        read_table(tmp_path, start_offset=15)


def test_given_no_check_of_crcs_when_read_then_bytes_are_taken_as_they_are(tmp_path):
    batches = log_of()
    batches[3] = batches[3][:-2] + b"!" + batches[3][-1:]
    write_partition(tmp_path / "logs-0", [batches])

    table = read_table(tmp_path, check_crc=False)

    assert table.num_rows == END
    assert table["value"][15].as_py().endswith(b"!")


def test_given_a_stretch_that_is_left_out_when_read_then_the_log_tells_of_it(tmp_path, caplog):
    batches = log_of()
    batches[3] = batches[3][:-1] + b"\xff"
    write_partition(tmp_path / "logs-0", [batches])

    with caplog.at_level(logging.WARNING, logger="tidelog.segments"):
        read_table(tmp_path, on_corrupt="skip")

    assert re.search(r"00\.log is damaged at byte \d+ \(offsets 12 to 15\)", caplog.text)


def test_given_the_error_when_pickled_then_it_is_the_same():
    error = pickle.loads(pickle.dumps(DamagedError("a.log", 5, 1, None, "bad")))

    assert str(error) == "a.log is damaged at byte 5 (offsets 1 to unknown): bad"
    assert error.end_offset is None


def test_given_a_last_batch_without_a_header_when_the_high_watermark_is_above_then_it_is_damage(
    tmp_path,
):
    batches = log_of()
    wrong = bytearray(batches[-1])
    wrong[MAGIC_POSITION] ^= 64
    write_partition(tmp_path / "logs-0", [[*batches[:-1]]])
    path = tmp_path / "logs-0" / f"{0:020}.log"
    path.write_bytes(path.read_bytes() + wrong)

    assert read_table(tmp_path).num_rows == END - COUNT  # torn, for all that is known
    (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\nlogs 0 {END}\n")
    with pytest.raises(DamagedError, match=f"offsets {END - COUNT} to unknown"):
        read_table(tmp_path)
    assert read_table(tmp_path, on_corrupt="skip").num_rows == END - COUNT


@pytest.mark.parametrize("offset", [21, 61, 63])
@pytest.mark.parametrize("chunk_bytes", [100, 4096])
def test_given_a_wrapper_with_a_wrong_offset_when_read_then_it_is_the_wound(
    tmp_path, offset, chunk_bytes
):
    sets = [
        build_set([Record(n, 5, b"k", b"v") for n in range(at, at + 10)], magic=1, codec=Codec.GZIP)
        for at in range(0, 50, 10)
    ]
    wrong = bytearray(sets[2])
    wrong[:8] = offset.to_bytes(8, "big")
    position = len(sets[0] + sets[1])
    directory = tmp_path / "logs-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join([*sets[:2], wrong, *sets[3:]]))

    for start in (0, 25):
        with pytest.raises(DamagedError) as told:
            read_table(tmp_path, chunk_bytes=chunk_bytes, start_offset=start)
        assert (told.value.position, told.value.first_offset) == (position, 20)
        assert told.value.end_offset in (30, None)  # None: the next one was not in sight
    rows = read_table(tmp_path, on_corrupt="skip", chunk_bytes=chunk_bytes)
    assert rows["offset"].to_pylist() == [*range(20), *range(30, 50)]


def test_given_a_batch_as_a_value_when_the_one_around_it_has_a_wrong_offset_then_it_is_not_read(
    tmp_path,
):
    inside = build_batch([(n, 0, b"wrong", None) for n in (1, 2)], base_offset=1)
    first = build_batch([(0, 0, b"right", None)])
    outer = bytearray(build_batch([(n, 0, None, inside) for n in (1, 2)], base_offset=1))
    outer[:8] = (7).to_bytes(8, "big")
    behind = build_batch([(3, 0, b"right", None)], base_offset=3)
    directory = write_partition(tmp_path / "logs-0", [[first, bytes(outer), behind]])

    assert [row["offset"] for row in read_rows(directory, on_corrupt="skip")] == [0, 3]


@settings(max_examples=60, deadline=None)
@given(
    magic=st.sampled_from([0, 1]),
    codecs=st.lists(
        st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY]), min_size=4, max_size=4
    ),
    place=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
    chunk_bytes=st.sampled_from([60, 200, 1 << 20]),
)
def test_given_a_flipped_bit_among_old_messages_when_read_then_it_is_told_and_all_else_is_read(
    tmp_path_factory, magic, codecs, place, bit, chunk_bytes
):
    sets = [
        build_set(
            [Record(n, 5, b"k%d" % n, b"v") for n in range(4 * at, 4 * at + 4)],
            magic=magic, codec=codec,
        )
        for at, codec in enumerate(codecs)
    ]  # fmt: skip
    data = bytearray(b"".join(sets))
    position = int(place * (len(data) - len(sets[-1])))  # of the last one nobody sees the offset
    data[position] ^= 1 << bit
    directory = tmp_path_factory.mktemp("log") / "logs-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(data)

    rows = read_table(directory, on_corrupt="skip", chunk_bytes=chunk_bytes).to_pylist()

    assert all(row["key"] == b"k%d" % row["offset"] for row in rows)
    if len(rows) < 16:  # else what was changed means nothing, such as an unused bit
        assert len(rows) >= 12
        with pytest.raises(DamagedError):
            read_table(directory, chunk_bytes=chunk_bytes)
