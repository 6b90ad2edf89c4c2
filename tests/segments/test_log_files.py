"""LogFiles: what is under a path, as a broker would see it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tidelog.segments import log_files
from tidelog.segments.errors import OptionError, SegmentError
from tidelog.segments.location import locate
from tidelog.segments.log_files import PartitionFiles, SegmentFile, list_partitions

SECOND = "00000000000000000042.log"
FIRST = "00000000000000000000.log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, files in {
        "web-logs-1": (SECOND, FIRST),
        "web-logs-0": (FIRST, FIRST + ".deleted", SECOND + ".swap", "x.log", "leader-epoch"),
        "web-logs-2.0123456789abcdef0123456789abcdef-delete": (FIRST,),
        "other-0": (FIRST,),
        "lost+found": (),
    }.items():
        directory = tmp_path / name
        directory.mkdir()
        for number, file in enumerate(files):
            (directory / file).write_bytes(bytes(number + 1))
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nweb-logs 1 50\n")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nweb-logs 1 7\n")
    return tmp_path


def test_given_a_topic_that_is_deleted_while_it_is_listed_then_the_others_are_listed(
    data, monkeypatch
):
    real = log_files.list_segments

    def listed(directory):
        if directory.path.endswith("web-logs-0"):
            shutil.rmtree(directory.path)
        return real(directory)

    monkeypatch.setattr(log_files, "list_segments", listed)

    found = list_partitions(locate(data))

    assert [(each.topic, each.partition) for each in found] == [("other", 0), ("web-logs", 1)]


def test_given_a_data_directory_when_listed_then_its_logs_in_order_with_what_is_known_of_them(data):
    found = list_partitions(locate(data))

    assert [(each.topic, each.partition) for each in found] == [
        ("other", 0), ("web-logs", 0), ("web-logs", 1),
    ]  # fmt: skip
    assert found[1].segments == (SegmentFile(str(data / "web-logs-0" / FIRST), 0, 1),)
    directory = data / "web-logs-1"
    assert found[2] == PartitionFiles(
        "web-logs", 1,
        (SegmentFile(str(directory / FIRST), 0, 2), SegmentFile(str(directory / SECOND), 42, 1)),
        50, 7,
    )  # fmt: skip
    assert (found[0].high_watermark, found[0].log_start_offset) == (None, 0)


def test_given_topics_when_listed_then_only_theirs(data):
    assert [each.topic for each in list_partitions(locate(data), ["other"])] == ["other"]


def test_given_a_partitions_directory_when_listed_then_it_alone_with_its_checkpoints(data):
    (found,) = list_partitions(locate(data / "web-logs-1"))

    assert (found.topic, found.partition, found.high_watermark, found.log_start_offset) == (
        "web-logs", 1, 50, 7,
    )  # fmt: skip
    assert len(found.segments) == 2


def test_given_one_segment_when_listed_then_its_topic_is_that_of_its_directory(data):
    (found,) = list_partitions(locate(data / "web-logs-1" / SECOND))

    assert (found.topic, found.partition) == ("web-logs", 1)
    assert [segment.base_offset for segment in found.segments] == [42]


def test_given_a_garbled_checkpoint_when_listed_then_nothing_is_known_by_it(data):
    (data / "replication-offset-checkpoint").write_bytes(b"\xff\x00garbage")

    assert {each.high_watermark for each in list_partitions(locate(data))} == {None}


def test_given_another_file_system_when_listed_then_its_paths_count(data):
    filesystem = SubTreeFileSystem(str(data), LocalFileSystem())

    found = list_partitions(locate("/", filesystem))

    assert (found[0].topic, found[0].partition) == ("other", 0)
    assert found[2].high_watermark == 50


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "is not there"),
        ("lost+found", "holds no partition"),
        ("replication-offset-checkpoint", "is no segment"),
        ("web-logs-0/x.log", "is no segment"),
    ],
)
def test_given_what_is_no_log_when_listed_then_the_error_says_so(data, name, text):
    with pytest.raises(SegmentError, match=text):
        list_partitions(locate(data / name))


def test_given_a_url_nobody_knows_when_located_then_the_error_names_it():
    with pytest.raises(OptionError, match=r"nope://bucket/logs cannot be read"):
        locate("nope://bucket/logs")


def test_given_a_url_of_this_machine_when_located_then_it_is_a_path(data):
    assert list_partitions(locate(f"file://{data}"))[0].topic == "other"


def test_given_a_data_directory_named_like_a_partition_when_listed_then_its_logs(tmp_path, data):
    disk = tmp_path / "data-0"
    disk.mkdir()
    for path in list(data.iterdir()):
        if path != disk:
            path.rename(disk / path.name)

    found = list_partitions(locate(disk))

    assert [each.topic for each in found] == ["other", "web-logs", "web-logs"]
    assert found[2].high_watermark == 50
