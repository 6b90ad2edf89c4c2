"""Names of files, directories and topics."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import InvalidTopicError
from protocol.identifiers import Offset, TopicPartition
from protocol.stored import file_names
from protocol.stored.file_names import (
    DirectoryName,
    DirectoryState,
    SegmentFileName,
    check_topic_name,
    deleted_directory_name,
    directory_name,
    is_topic_name,
    parse_directory_name,
    parse_file_name,
)

UNIQUE_ID = UUID(hex="d2d78f5ecbc6484b9c8937245aab5b0c")

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(is_topic_name)
TOPIC_PARTITIONS = st.builds(TopicPartition, TOPICS, st.integers(0, 2**31 - 1))
FILE_NAMES = st.builds(
    SegmentFileName,
    st.integers(0, 2**63 - 1).map(Offset),
    st.sampled_from(file_names.SEGMENT_SUFFIXES),
    st.sampled_from(file_names.STATE_SUFFIXES),
)


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000000.log", SegmentFileName(Offset(0), ".log")),
        ("00000000000000000042.timeindex", SegmentFileName(Offset(42), ".timeindex")),
        ("00000000000000000042.log.deleted", SegmentFileName(Offset(42), ".log", ".deleted")),
        ("00000000000000000063.snapshot", SegmentFileName(Offset(63), ".snapshot")),
        ("09223372036854775807.txnindex", SegmentFileName(Offset(2**63 - 1), ".txnindex")),
    ],
)
def test_given_a_name_kafka_wrote_when_parsed_then_its_parts_come_out(
    name: str, parsed: SegmentFileName
) -> None:
    found = parse_file_name(name)

    assert found == parsed
    assert str(found) == name


@given(file_name=FILE_NAMES)
def test_given_any_segment_file_when_named_and_parsed_then_it_is_the_same(
    file_name: SegmentFileName,
) -> None:
    assert parse_file_name(str(file_name)) == file_name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "meta.properties",
        "0000000000000000042.log",  # 19 digits
        "000000000000000000042.log",  # 21 digits
        "0000000000000000004a.log",
        "00000000000000000042.lock",
        "00000000000000000042.log.bak",
        "00000000000000000042.log\n",
        "09223372036854775808.log",  # over int64
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٤٢.log",  # digits of another script
    ],
)
def test_given_a_name_that_is_no_segment_file_when_parsed_then_none(name: str) -> None:
    assert parse_file_name(name) is None


def test_given_a_base_offset_when_named_then_each_file_has_its_suffix() -> None:
    names = [
        file_names.log_file_name(7),
        file_names.offset_index_file_name(7),
        file_names.time_index_file_name(7),
        file_names.snapshot_file_name(7),
        file_names.transaction_index_file_name(7),
    ]

    suffixes = [".log", ".index", ".timeindex", ".snapshot", ".txnindex"]
    assert names == ["00000000000000000007" + suffix for suffix in suffixes]


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("plain-0", "plain", 0),
        ("compacted-gone-12", "compacted-gone", 12),
        ("__consumer_offsets-49", "__consumer_offsets", 49),
        ("a--1", "a-", 1),
        ("web-0-3", "web-0", 3),
        ("x-delete-0", "x-delete", 0),
        ("t-2147483647", "t", 2147483647),
    ],
)
def test_given_a_directory_kafka_made_when_parsed_then_topic_and_partition_come_out(
    name: str, topic: str, partition: int
) -> None:
    found = parse_directory_name(name)

    assert found == DirectoryName(TopicPartition(topic, partition))
    assert directory_name(TopicPartition(topic, partition)) == name


@pytest.mark.parametrize("state", ["delete", "future", "stray"])
def test_given_a_directory_in_passing_when_parsed_then_its_state_comes_out(state: str) -> None:
    found = parse_directory_name(f"gone-0.{UNIQUE_ID.hex}-{state}")

    assert found == DirectoryName(TopicPartition("gone", 0), DirectoryState(state), UNIQUE_ID)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "plain",
        "-0",
        "plain-",
        "plain-01",  # would be a second directory of plain-1
        "plain-+1",
        "plain-2147483648",
        "plain-99999999999",
        "pl ain-0",
        "..-0",
        "pläin-0",
        "plain-0\n",
        "plain-0.d2d78f5e-delete",
        f"plain-0.{UNIQUE_ID.hex}-deleted",
        f"plain-0.{UNIQUE_ID.hex.upper()}-delete",
        "a" * 250 + "-0",
    ],
)
def test_given_a_name_that_is_no_partition_when_parsed_then_none(name: str) -> None:
    assert parse_directory_name(name) is None


@given(topic_partition=TOPIC_PARTITIONS)
def test_given_any_partition_when_named_and_parsed_then_it_is_the_same(
    topic_partition: TopicPartition,
) -> None:
    found = parse_directory_name(directory_name(topic_partition))

    assert found == DirectoryName(topic_partition)


@given(topic_partition=TOPIC_PARTITIONS)
def test_given_any_partition_when_deleted_then_its_name_fits_and_is_known_as_deleted(
    topic_partition: TopicPartition,
) -> None:
    name = deleted_directory_name(topic_partition, UNIQUE_ID)
    found = parse_directory_name(name)

    assert len(name) <= 255
    assert found is not None
    assert found.state is DirectoryState.DELETE
    assert found.unique_id == UNIQUE_ID
    assert found.topic_partition.partition == topic_partition.partition
    assert topic_partition.topic.startswith(found.topic_partition.topic)


def test_given_a_short_topic_when_deleted_then_the_name_is_what_kafka_writes() -> None:
    name = deleted_directory_name(TopicPartition("gone", 0), UNIQUE_ID)

    assert name == "gone-0.d2d78f5ecbc6484b9c8937245aab5b0c-delete"


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "_", "-", "0", "a" * 249])
def test_given_a_legal_topic_name_when_checked_then_its_text_comes_back(name: str) -> None:
    assert check_topic_name(name) == name
    assert check_topic_name(name.encode()) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "../a", "a\x00", "a b", "a\n", "ä", "a" * 250, "a:b", "\\", "٣"],
)
def test_given_an_illegal_topic_name_when_checked_then_it_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopicError) as of_text:
        check_topic_name(name)
    with pytest.raises(InvalidTopicError) as of_bytes:
        check_topic_name(name.encode())

    assert str(of_text.value) == str(of_bytes.value)


@given(name=st.binary(max_size=300))
def test_given_any_bytes_as_topic_when_checked_then_only_harmless_names_pass(name: bytes) -> None:
    try:
        text = check_topic_name(name)
    except InvalidTopicError:
        return

    assert text.encode("ascii") == name
    assert text not in {".", ".."}
    assert "/" not in text
    assert 1 <= len(text) <= 249
