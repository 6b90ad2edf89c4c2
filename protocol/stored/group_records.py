"""Group records: what `__consumer_offsets` holds: how far groups have come, and who is in them.

Keys and values of records, as Apache Kafka 0.9 to 4.x write them, big-endian; a value that is null
is a tombstone. A string is `length i16, UTF-8`, null is length -1; bytes are `length i32, bytes`.

    key of a committed offset      version i16 (0, 1)  group string  topic string  partition i32
    key of a group's metadata      version i16 (2)     group string

    a committed offset, by version i16
      0   offset i64                     metadata string  commit_timestamp i64
      1   offset i64                     metadata string  commit_timestamp i64  expire_timestamp i64
      2   offset i64                     metadata string  commit_timestamp i64
      3   offset i64  leader_epoch i32   metadata string  commit_timestamp i64
      4   as 3, the string compact, then tagged fields: 0 is the topic's id

    a group's metadata, by version i16
      protocol_type string  generation i32  protocol nullable string  leader nullable string
      current_state_timestamp i64 (from 2 on)  member count i32, and each member:
          member_id string  group_instance_id nullable string (from 3 on)
          client_id string  client_host string
          rebalance_timeout i32 (from 1 on)  session_timeout i32
          subscription bytes  assignment bytes
      4   the same with compact strings, arrays and tagged fields

Written are keys 1 and 2; groups as version 3, which every Kafka from 2.3 on reads; and offsets as
Kafka 4.3 does: as version 4 with the topic's id (read since KIP-915, by 3.5), as 3 where the id is
not known, and as 1 where the client says when they expire. Keys from 3 on are of other kinds of
groups, and are not for us. Source: the schemas of Kafka's `group-coordinator` module.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Annotated, Any, Final, NamedTuple

from protocol.errors import StoredFormatError, TidelogError
from protocol.identifiers import Buffer
from protocol.kafka.decoder import make_decoder
from protocol.kafka.encoder import make_encoder
from protocol.kafka.message import NO_UUID, Int32, Int64, Struct, Uuid, Wire
from protocol.limits import OWN_ELEMENTS_MAX

__all__ = [
    "GroupKey",
    "GroupMetadataValue",
    "GroupRecordMember",
    "OffsetCommitValue",
    "OffsetKey",
    "decode_group_metadata",
    "decode_key",
    "decode_offset_commit",
    "encode_group_key",
    "encode_group_metadata",
    "encode_offset_commit",
    "encode_offset_key",
    "partition_of_group",
]

VERSION: Final = struct.Struct(">h")
OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
OFFSET_VALUE_VERSION: Final = 3
EXPIRING_OFFSET_VALUE_VERSION: Final = 1
GROUP_VALUE_VERSION: Final = 3
VALUE_VERSION_MAX: Final = 4
"""Of both values; it is the one that is flexible."""


class OffsetKey(NamedTuple):
    """Whose offset, and where."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """Whose metadata."""

    group_id: str


class _OffsetKeyFields(Struct):
    group: str = ""
    topic: str = ""
    partition: Int32 = 0


class _GroupKeyFields(Struct):
    group: str = ""


class OffsetCommitValue(Struct):
    """A committed offset."""

    offset: Int64 = 0
    leader_epoch: Annotated[Int32, Wire("3+")] = -1
    metadata: str = ""
    commit_timestamp: Int64 = -1
    expire_timestamp: Annotated[Int64, Wire("1")] = -1
    topic_id: Annotated[Uuid, Wire("4+", tag=0)] = NO_UUID


class GroupRecordMember(Struct):
    """A member of a group, as it was when the group last became stable."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, Wire("3+")] = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: Annotated[Int32, Wire("1+")] = -1
    session_timeout: Int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(Struct):
    """A group."""

    protocol_type: str = ""
    generation: Int32 = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: Annotated[Int64, Wire("2+")] = -1
    members: list[GroupRecordMember] = []  # noqa: RUF012  # made anew for each message


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    return _encode(_OffsetKeyFields(group_id, topic, partition), OFFSET_KEY_VERSION)


def encode_group_key(group_id: str) -> bytes:
    """Return the key of a group's metadata."""
    return _encode(_GroupKeyFields(group_id), GROUP_KEY_VERSION)


def encode_offset_commit(value: OffsetCommitValue) -> bytes:
    """Return the value of a committed offset, in the version that has what it says.

    Raises:
        StoredFormatError: its text is too long for its length.
    """
    if value.expire_timestamp >= 0:
        return _encode(value, EXPIRING_OFFSET_VALUE_VERSION)
    return _encode(value, OFFSET_VALUE_VERSION if value.topic_id == NO_UUID else VALUE_VERSION_MAX)


def encode_group_metadata(value: GroupMetadataValue) -> bytes:
    """Return the value of a group's metadata.

    Raises:
        StoredFormatError: something in it is too long for its length.
    """
    return _encode(value, GROUP_VALUE_VERSION)


def decode_key(key: Buffer) -> OffsetKey | GroupKey | None:
    """Return what a record is about; None: of another kind, or of a version that is not known.

    Raises:
        StoredFormatError: it is cut.
    """
    version = _version(key)
    if 0 <= version <= OFFSET_KEY_VERSION:
        fields = _decode(_OffsetKeyFields, version, key, is_flexible=False)
        return OffsetKey(fields.group, fields.topic, fields.partition)
    if version == GROUP_KEY_VERSION:
        return GroupKey(_decode(_GroupKeyFields, version, key, is_flexible=False).group)
    return None


def decode_offset_commit(value: Buffer) -> OffsetCommitValue:
    """Return a committed offset.

    Raises:
        StoredFormatError: it is cut, or of a version that is not known.
    """
    fields: OffsetCommitValue = _decode_value(OffsetCommitValue, value)
    return fields


def decode_group_metadata(value: Buffer) -> GroupMetadataValue:
    """Return a group's metadata. Errors as `decode_offset_commit`."""
    fields: GroupMetadataValue = _decode_value(GroupMetadataValue, value)
    return fields


def partition_of_group(group_id: str, partition_count: int) -> int:
    """Return where a group is kept: Java's `abs(groupId.hashCode()) % count`."""
    units = group_id.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        hashed = (hashed * 31 + unit) & 0xFFFF_FFFF
    if hashed >= 1 << 31:
        hashed = (1 << 32) - hashed
    return 0 if hashed == 1 << 31 else hashed % partition_count  # abs(MIN_VALUE) is 0 there


def _version(data: Buffer) -> int:
    try:
        version: int = VERSION.unpack_from(data)[0]
    except struct.error:
        raise StoredFormatError(f"{len(data)} bytes have no version") from None
    return version


def _decode_value(structure: type[Struct], value: Buffer) -> Any:
    version = _version(value)
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise StoredFormatError(f"a {structure.__name__} of version {version}")
    return _decode(structure, version, value, is_flexible=version == VALUE_VERSION_MAX)


def _decode(structure: type[Struct], version: int, data: Buffer, *, is_flexible: bool) -> Any:
    raw = bytes(data)
    try:
        decoder = _decoder(structure, version, is_flexible)
        fields, _ = decoder(raw, VERSION.size, len(raw), memoryview(raw))
    except (IndexError, struct.error, ValueError, TidelogError) as error:
        name = structure.__name__.lstrip("_")
        raise StoredFormatError(f"{len(raw)} bytes are no {name}: {error}") from error
    return fields


def _encode(fields: Struct, version: int) -> bytes:
    out: list[Buffer] = [VERSION.pack(version)]
    try:
        _encoder(type(fields), version)(fields, out, [])
    except struct.error as error:
        raise StoredFormatError(f"a {type(fields).__name__} that does not fit: {error}") from error
    return b"".join(out)


_decoder = cache(
    lambda structure, version, is_flexible: make_decoder(
        structure, version, is_flexible=is_flexible, elements_max=OWN_ELEMENTS_MAX
    )
)
_encoder = cache(
    lambda structure, version: make_encoder(
        structure, version, is_flexible=version == VALUE_VERSION_MAX
    )
)
