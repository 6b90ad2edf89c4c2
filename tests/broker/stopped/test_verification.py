"""verify: what is said of sound and of damaged directories. Nothing may be changed by it."""

import fcntl
import gzip
import shutil
import struct
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.offline import Severity, log_bytes, verify_directory
from protocol.errors import DataDirectoryError
from protocol.stored import durable_offsets, partition_metadata
from protocol.stored.checkpoint import offset_checkpoint_encode
from tests.support.stored_partition import batches, write_segment

DATA = Path(__file__).parents[2] / "data"
TOPIC_ID = UUID(int=7)


def data_directory(tmp_path, *segments):
    partition = tmp_path / "logs-0"
    logs = [write_segment(partition, built) for built in segments]
    (partition / "partition.metadata").write_bytes(partition_metadata.encode(TOPIC_ID))
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(offset_checkpoint_encode({}))
    return logs


def two_segments(tmp_path):
    return data_directory(tmp_path, batches(0, [3, 2, 4]), batches(9, [1, 5]))


def problems(directory, **options):
    """Return (file name, severity, text, position, offset) of everything found."""
    return [
        (finding.path.name, one.severity, one.text, one.position, one.offset)
        for finding in verify_directory(directory, **options)
        for one in finding.problems
    ]


def overwrite(path, position, data):
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


def set_durable_offset(tmp_path, offset):
    slot = durable_offsets.encode_slot(TOPIC_ID.bytes, 0, offset)
    (tmp_path / "durable-offsets").write_bytes(durable_offsets.encode_header() + slot)


def snapshot(tmp_path):
    return {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}


def test_given_a_sound_directory_when_verified_then_all_is_counted_and_nothing_changed(tmp_path):
    two_segments(tmp_path)
    set_durable_offset(tmp_path, 15)
    before = snapshot(tmp_path)
    read = []

    findings = list(verify_directory(tmp_path, decode_records=True, on_bytes=read.append))

    assert [finding.problems for finding in findings] == [()] * len(findings)
    logs = [finding for finding in findings if finding.kind == "log"]
    assert [(log.entry_count, log.record_count) for log in logs] == [(3, 9), (2, 6)]
    assert [(log.first_offset, log.last_offset) for log in logs] == [(0, 8), (9, 14)]
    assert sum(read) == log_bytes(tmp_path) == sum(log.size_bytes for log in logs)
    assert {finding.kind for finding in findings} == {
        "log", "index", "timeindex", "checkpoint", "metadata",
    }  # fmt: skip
    assert snapshot(tmp_path) == before


def test_given_one_partition_when_verified_then_its_files_alone_are_looked_at(tmp_path):
    two_segments(tmp_path)

    findings = list(verify_directory(tmp_path / "logs-0"))

    assert all(finding.path.parent.name == "logs-0" for finding in findings)
    assert len(findings) == 7


@given(flipped=st.data())
def test_given_any_flipped_byte_of_a_log_when_verified_then_it_is_an_error(
    tmp_path_factory, flipped
):
    tmp_path = tmp_path_factory.mktemp("flipped")
    log, _ = two_segments(tmp_path)
    size = log.stat().st_size
    position = flipped.draw(st.integers(0, size - 1))
    unguarded = {12, 13, 14, 15}  # the leader epoch is outside the CRC and may be anything
    starts = positions_of(log)
    start = max(one for one in starts if one <= position)
    before = log.read_bytes()[position]
    overwrite(log, position, bytes([before ^ flipped.draw(st.integers(1, 255))]))

    found = problems(tmp_path)

    guarded = position - start not in unguarded
    assert any(severity is Severity.ERROR for _, severity, *_ in found) is guarded


def positions_of(log):
    data, position, found = log.read_bytes(), 0, []
    while position < len(data):
        found.append(position)
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    return found


def test_given_a_bad_crc_when_verified_then_the_batches_after_it_are_still_checked(tmp_path):
    log, _ = two_segments(tmp_path)
    starts = positions_of(log)
    overwrite(log, starts[1] + 70, b"\xff")
    overwrite(log, starts[2] + 70, b"\xff")

    found = problems(tmp_path)

    assert [(name, severity, position) for name, severity, _, position, _ in found] == [
        (log.name, Severity.ERROR, starts[1]),
        (log.name, Severity.ERROR, starts[2]),
    ]
    assert "crc" in found[0][2]
    assert [offset for *_, offset in found] == [3, 3]  # the next good offset is not known yet


def test_given_a_cut_newest_log_when_verified_then_it_is_a_torn_tail(tmp_path):
    _, log = two_segments(tmp_path)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5)
    set_durable_offset(tmp_path, 10)

    found = problems(tmp_path)

    logs = [one for one in found if one[0] == log.name]
    assert [(severity, offset) for _, severity, _, _, offset in logs] == [(Severity.WARNING, 10)]
    assert "a torn tail, which the next start cuts" in logs[0][2]


def test_given_a_cut_below_the_durable_offset_when_verified_then_it_is_damage(tmp_path):
    _, log = two_segments(tmp_path)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5)
    set_durable_offset(tmp_path, 15)

    logs = [one for one in problems(tmp_path) if one[0] == log.name]

    assert [severity for _, severity, *_ in logs] == [Severity.ERROR, Severity.ERROR]
    assert logs[0][2].startswith("damage: ")
    assert logs[1][2] == "offsets up to 14 were durable and are not there"


def test_given_a_cut_older_log_when_verified_then_it_is_damage(tmp_path):
    log, _ = two_segments(tmp_path)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5)

    logs = [one for one in problems(tmp_path) if one[0] == log.name]

    assert [severity for _, severity, *_ in logs] == [Severity.ERROR]


def test_given_offsets_that_do_not_grow_when_verified_then_each_is_named(tmp_path):
    data_directory(
        tmp_path, [*batches(5, [3]), *batches(6, [2]), *batches(20, [1])], batches(9, [1])
    )

    texts = [text for _, severity, text, *_ in problems(tmp_path) if severity is Severity.ERROR]

    assert texts == ["offset 6 comes after offset 7", "offset 20 belongs to the next file (9)"]


def test_given_a_log_under_its_file_name_when_verified_then_it_is_an_error(tmp_path):
    (log,) = data_directory(tmp_path, batches(5, [3]))
    for path in list(log.parent.glob("*5.*")):
        path.rename(path.with_name(path.name.replace("5.", "7.")))

    texts = [text for _, severity, text, *_ in problems(tmp_path) if severity is Severity.ERROR]

    assert texts == ["offset 5 comes after offset 6"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ((3, 10), "points into the middle of a batch"),
        ((3, 100_000), "points past the log's end"),
        ((1, None), "is below offset 3, which is there"),
    ],
)
def test_given_a_wrong_index_entry_when_verified_then_it_is_a_warning(tmp_path, entry, said):
    log, _ = two_segments(tmp_path)
    relative, position = entry
    position = positions_of(log)[1] if position is None else position
    log.with_suffix(".index").write_bytes(struct.pack(">ii", relative, position))

    found = problems(tmp_path)

    assert [(name, severity) for name, severity, *_ in found] == [
        (log.with_suffix(".index").name, Severity.WARNING)
    ]
    assert said in found[0][2]


def test_given_a_time_index_below_the_log_when_verified_then_it_is_a_warning(tmp_path):
    log, _ = two_segments(tmp_path)
    log.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 900, 8))

    found = problems(tmp_path)

    assert [severity for _, severity, *_ in found] == [Severity.WARNING]
    assert "is below timestamp 1008, which is in the log" in found[0][2]


def test_given_a_preallocated_index_when_verified_then_its_zeros_are_fine(tmp_path):
    _, log = two_segments(tmp_path)
    for suffix, size in ((".index", 80), (".timeindex", 120)):
        with log.with_suffix(suffix).open("r+b") as file:
            file.truncate(size)

    found = problems(tmp_path)

    assert found == []


@pytest.mark.parametrize(
    ("suffix", "content", "said"),
    [
        (".index", b"\0" * 7, "not a whole number"),
        (".index", struct.pack(">iiii", 5, 90, 4, 95), "entry 1 is not above the one before it"),
        (".timeindex", struct.pack(">qi", -5, 1), "entry 0 is negative"),
    ],
)
def test_given_an_index_that_is_none_when_verified_then_it_is_a_warning(
    tmp_path, suffix, content, said
):
    _, log = two_segments(tmp_path)
    log.with_suffix(suffix).write_bytes(content)

    found = problems(tmp_path)

    assert {severity for _, severity, *_ in found} == {Severity.WARNING}
    assert said in found[0][2]


def test_given_odd_files_when_verified_then_each_is_told_by_its_weight(tmp_path):
    log, _ = two_segments(tmp_path)
    log.with_suffix(".index").unlink()
    (log.parent / "00000000000000000005.log.deleted").write_bytes(b"x")
    (log.parent / "00000000000000000005.timeindex").write_bytes(b"")
    (log.parent / "leader-epoch-checkpoint").write_text("nonsense")
    (log.parent / "partition.metadata").write_text("nonsense")
    (tmp_path / "meta.properties").write_text("version=99")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "README").write_text("not ours")

    found = {(name, severity) for name, severity, *_ in problems(tmp_path)}

    assert found == {
        (log.name, Severity.WARNING),
        ("00000000000000000005.log.deleted", Severity.NOTE),
        ("00000000000000000005.timeindex", Severity.NOTE),
        ("leader-epoch-checkpoint", Severity.WARNING),
        ("partition.metadata", Severity.ERROR),
        ("meta.properties", Severity.ERROR),
    }


def test_given_many_problems_in_a_file_when_verified_then_they_do_not_flood(tmp_path):
    (log,) = data_directory(tmp_path, batches(0, [1] * 60))
    for start in positions_of(log)[:-1]:
        overwrite(log, start + 65, b"\xff")

    finding = next(one for one in verify_directory(tmp_path) if one.kind == "log")

    assert len(finding.problems) == 21
    assert finding.problems[-1].text == "and 39 more problems"
    assert finding.worst is Severity.ERROR


def test_given_a_running_broker_when_verified_then_it_is_refused(tmp_path):
    two_segments(tmp_path)
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(DataDirectoryError, match="in use by a running broker"):
            verify_directory(tmp_path)
        with pytest.raises(DataDirectoryError, match="in use by a running broker"):
            verify_directory(tmp_path / "logs-0")

    assert list(verify_directory(tmp_path))  # the lock is free again


@pytest.mark.parametrize("name", ["none", "empty"])
def test_given_no_data_directory_when_verified_then_it_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()

    with pytest.raises(DataDirectoryError, match=r"no directory|neither a data directory"):
        verify_directory(tmp_path / name)


def unpacked(tmp_path, source):
    """Copy a partition that Kafka wrote into a data directory of its own."""
    partition = tmp_path / source.name
    partition.mkdir()
    for path in source.iterdir():
        if path.suffix == ".gz":
            (partition / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, partition)


@pytest.mark.parametrize(
    "source",
    [path for version in ("kafka-2.8", "kafka-4.3") for path in (DATA / version).glob("*-?")],
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_given_segments_that_kafka_wrote_when_verified_then_no_data_is_called_wrong(
    tmp_path, source
):
    unpacked(tmp_path, source)

    findings = list(verify_directory(tmp_path, decode_records=True))

    problems_found = [one for finding in findings for one in finding.problems]
    assert {one.text.split(" ", 1)[1] for one in problems_found} == {"is missing"}  # indexes
    assert sum(finding.record_count for finding in findings) > 0
