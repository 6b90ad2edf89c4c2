"""Checkpoint files of a data directory, text to offsets and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.identifiers import TopicPartition
from protocol.stored.checkpoint import offset_checkpoint_decode, offset_checkpoint_encode
from protocol.stored.file_names import is_topic_name
from tests.support.damage import any_bytes, error_of

# `cleaner-offset-checkpoint` as Apache Kafka 4.3.0 wrote it.
KAFKAS = (
    b"0\n4\n"
    b"compacted-txn 0 179\ncompacted-idempotent 0 200\ncompacted-gone 0 424\ncompacted 0 338\n"
)

OFFSETS = st.dictionaries(
    st.builds(
        TopicPartition,
        st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True).filter(is_topic_name),
        st.integers(0, 2**31 - 1),
    ),
    st.integers(0, 2**63 - 1),
    max_size=6,
)


def test_given_kafkas_checkpoint_when_decoded_then_its_offsets_come_out() -> None:
    offsets = offset_checkpoint_decode(KAFKAS)

    assert offsets == {
        TopicPartition("compacted-txn", 0): 179,
        TopicPartition("compacted-idempotent", 0): 200,
        TopicPartition("compacted-gone", 0): 424,
        TopicPartition("compacted", 0): 338,
    }
    assert offset_checkpoint_encode(offsets) == KAFKAS


def test_given_no_offsets_when_encoded_then_as_kafka_writes_none() -> None:
    assert offset_checkpoint_encode({}) == b"0\n0\n"
    assert offset_checkpoint_decode(b"0\n0\n") == {}


def test_given_an_empty_file_when_decoded_then_it_has_no_offsets() -> None:
    assert offset_checkpoint_decode(b"") == {}


@given(offsets=OFFSETS)
def test_given_any_offsets_when_encoded_and_decoded_then_the_same_in_the_same_order(
    offsets: dict[TopicPartition, int],
) -> None:
    decoded = offset_checkpoint_decode(offset_checkpoint_encode(offsets))

    assert list(decoded.items()) == list(offsets.items())


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"0\n",
        b"0\n1\n",
        b"0\n1\nvictim 0\n",  # as in a checkpoint that was garbled
        b"0\n2\na 0 1\n",
        b"0\n0\na 0 1\n",
        b"0\n99999999999999999999\na 0 1\n",
        b"0\n-1\n",
        b"1\n0\n",
        b"x\n0\n",
        b"0\n1\na 0 1 1\n",
        b"0\n1\na 0 -1\n",
        b"0\n1\na -1 0\n",
        b"0\n1\na 2147483648 0\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n1\na 0 1_0\n",
        b"0\n1\na 0 +1\n",
        b"0\n1\na/b 0 1\n",
        b"0\n1\n.. 0 1\n",
        b"0\n2\na 0 1\na 0 2\n",  # one partition twice
        b"0\n1\n\xff 0 1\n",
        "0\n1\na 0 \u0663\n".encode(),
    ],
)
def test_given_a_malformed_checkpoint_when_decoded_then_refused(data: bytes) -> None:
    with pytest.raises(StoredFormatError):
        offset_checkpoint_decode(data)


@given(data=any_bytes(OFFSETS.map(offset_checkpoint_encode)))
def test_given_any_bytes_when_decoded_then_offsets_or_our_error(data: bytes) -> None:
    error = error_of(offset_checkpoint_decode, data)

    assert error is None or isinstance(error, StoredFormatError)
