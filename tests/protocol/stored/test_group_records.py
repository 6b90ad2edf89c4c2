"""Records of `__consumer_offsets`, against bytes that Kafka 4.3 has written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.kafka.encoder import make_encoder
from protocol.kafka.message import NO_UUID
from protocol.record_batch import check_batch, iterate_records
from protocol.stored.group_records import (
    GroupKey,
    GroupMetadataValue,
    GroupRecordMember,
    OffsetCommitValue,
    OffsetKey,
    decode_group_metadata,
    decode_key,
    decode_offset_commit,
    encode_group_key,
    encode_group_metadata,
    encode_offset_commit,
    encode_offset_key,
    partition_of_group,
)

# Two batches of a Kafka 4.3.0: a group that became stable with one member, and two commits.
GROUP_BATCH = bytes.fromhex(
    "0000000000000001 00000153 00000000 02 2cca0052 0000 00000000"
    "000001a1fc479ed7 000001a1fc479ed7 ffffffffffffffff ffff 00000000 00000001"
    "c004 00 00 00 22 0002 000d67726f75702d636c6173736963 9004"
    "0003 0008636f6e73756d6572 00000001 000572616e6765"
    "002c666978747572652d32363731373836332d383564362d346339652d626334392d373463613362663162376363"
    "000001a1fc479ed4 00000001"
    "002c666978747572652d32363731373836332d383564362d346339652d626334392d373463613362663162376363"
    "ffff 000766697874757265 000a2f3132372e302e302e31 000493e0 0000afc8"
    "00000024 0003000000020006636f646563730006726f6c6c65640000000000000000ffffffff0000"
    "0000003e 0000000000020006726f6c6c656400000002000000000000000100"
    "06636f6465637300000005000000000000000100000002000000030000000400000000"
    "00"
)
COMMIT_BATCH = bytes.fromhex(
    "0000000000000003 000000e0 00000000 02 c4a7abcc 0000 00000001"
    "000001a1fc479f72 000001a1fc479f72 ffffffffffffffff ffff 00000000 00000002"
    "9a01 00 00 00 3a 0001 000d67726f75702d636c6173736963 0006636f64656373 00000001"
    "54 0004 0000000000000005 ffffffff 01 000001a1fc479f72"
    "01 00 10 a2c892dff587498c9a3bdc300b802060 00"
    "bc01 00 00 02 3a 0001 000d67726f75702d636c6173736963 0006726f6c6c6564 00000000"
    "76 0004 0000000000000021 ffffffff 12 77697468206d6574616461746120c3a400 000001a1fc479f72"
    "01 00 10 8f8704435167 45c086048cd55e1b7312 00"
)
MEMBER_ID = "fixture-26717863-85d6-4c9e-bc49-74ca3bf1b7cc"


def records(batch: bytes):
    assert check_batch(batch).record_count
    return list(iterate_records(batch))


def test_given_kafkas_group_when_read_and_written_then_the_same_bytes():
    (record,) = records(GROUP_BATCH)

    key, value = decode_key(record.key), decode_group_metadata(record.value)

    assert key == GroupKey("group-classic")
    (member,) = value.members
    assert (value.protocol_type, value.generation, value.protocol) == ("consumer", 1, "range")
    assert (value.leader, member.member_id) == (MEMBER_ID, MEMBER_ID)
    assert value.current_state_timestamp == 1_795_233_914_580
    assert (member.group_instance_id, member.client_id) == (None, "fixture")
    assert (member.client_host, member.rebalance_timeout) == ("/127.0.0.1", 300_000)
    assert (member.session_timeout, len(member.assignment)) == (45_000, 62)
    assert encode_group_key("group-classic") == record.key
    assert encode_group_metadata(value) == record.value


def test_given_kafkas_commits_when_read_and_written_then_the_same_with_metadata_and_topic_id():
    first, second = records(COMMIT_BATCH)
    for record in (first, second):
        assert encode_offset_commit(decode_offset_commit(record.value)) == record.value

    assert decode_key(first.key) == OffsetKey("group-classic", "codecs", 1)
    assert decode_offset_commit(first.value) == OffsetCommitValue(
        offset=5,
        commit_timestamp=1_795_233_914_738,
        topic_id=bytes.fromhex("a2c892dff587498c9a3bdc300b802060"),
    )
    assert decode_offset_commit(second.value).metadata == "with metadata ä\0"
    assert encode_offset_key("group-classic", "rolled", 0) == second.key


def test_given_a_commit_when_written_then_version_3_and_with_an_expiry_version_1():
    value = OffsetCommitValue(offset=258, leader_epoch=7, metadata="m", commit_timestamp=5)

    assert encode_offset_commit(value) == bytes.fromhex(
        "0003 0000000000000102 00000007 00016d 0000000000000005"
    )
    value.expire_timestamp = 6
    assert encode_offset_commit(value) == bytes.fromhex(
        "0001 0000000000000102 00016d 0000000000000005 0000000000000006"
    )


@pytest.mark.parametrize(
    ("value", "epoch", "expires"),
    [
        ("0000 0000000000000102 00016d 0000000000000005", -1, -1),
        ("0001 0000000000000102 00016d 0000000000000005 0000000000000006", -1, 6),
        ("0002 0000000000000102 00016d 0000000000000005", -1, -1),
        ("0003 0000000000000102 00000007 00016d 0000000000000005", 7, -1),
        ("0004 0000000000000102 00000007 026d 0000000000000005 00", 7, -1),
    ],
    ids=range(5),
)
def test_given_each_version_of_a_commit_when_read_then_the_same(value, epoch, expires):
    read = decode_offset_commit(bytes.fromhex(value))

    assert read == OffsetCommitValue(258, epoch, "m", 5, expires, NO_UUID)


@pytest.mark.parametrize("version", range(5))
def test_given_each_version_of_a_group_when_read_then_what_it_has(version):
    member = GroupRecordMember(
        member_id="m",
        group_instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=8 if version >= 1 else -1,
        session_timeout=9,
        subscription=b"s",
        assignment=b"a",
    )
    group = GroupMetadataValue("consumer", 4, "range", "m", 3 if version >= 2 else -1, [member])
    out: list[bytes] = [version.to_bytes(2, "big")]
    make_encoder(GroupMetadataValue, version, is_flexible=version == 4)(group, out, [])

    assert decode_group_metadata(b"".join(out)) == group


def test_given_keys_of_old_and_of_other_groups_when_read_then_told_apart():
    old = b"\0\0" + encode_offset_key("g", "t", 3)[2:]

    assert decode_key(old) == OffsetKey("g", "t", 3)
    for version in (3, 8, 17, -1):
        assert decode_key(version.to_bytes(2, "big", signed=True) + b"rest") is None


@given(data=st.binary(max_size=60), version=st.integers(0, 6))
def test_given_any_bytes_when_read_then_a_value_or_our_error(data, version):
    stored = version.to_bytes(2, "big") + data
    for decode in (decode_key, decode_offset_commit, decode_group_metadata):
        try:
            decode(stored)
        except StoredFormatError:
            pass


def test_given_what_does_not_fit_when_written_then_our_error():
    with pytest.raises(StoredFormatError):
        encode_offset_key("g" * 40_000, "t", 0)


@pytest.mark.parametrize(
    ("group_id", "count", "partition"),
    [
        ("", 50, 0),
        ("group-classic", 2, 0),  # these four as Kafka has placed them
        ("group-txn", 2, 0),
        ("group-admin", 2, 1),
        ("group-deleted", 2, 1),
        ("polygenelubricants", 50, 0),  # its hash is Integer.MIN_VALUE
        ("a", 50, 47),
        ("\U0001f600", 50, 1_772_899 % 50),  # by UTF-16 units
    ],
)
def test_given_a_group_when_placed_then_where_java_places_it(group_id, count, partition):
    assert partition_of_group(group_id, count) == partition
