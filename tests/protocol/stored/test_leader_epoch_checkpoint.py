"""`leader-epoch-checkpoint`, text to epochs and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.stored.leader_epoch_checkpoint import LeaderEpoch, decode, encode
from tests.support.damage import any_bytes, error_of

EPOCHS = st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 2**40)), max_size=6).map(
    lambda steps: [
        LeaderEpoch(sum(s[0] for s in steps[: i + 1]), sum(s[1] for s in steps[: i + 1]))
        for i in range(len(steps))
    ]
)


def test_given_kafkas_file_when_decoded_then_its_epochs_come_out() -> None:
    kafkas = b"0\n2\n0 0\n2 126\n"  # as Apache Kafka 4.3.0 wrote it

    epochs = decode(kafkas)

    assert epochs == [LeaderEpoch(0, 0), LeaderEpoch(2, 126)]
    assert encode(epochs) == kafkas


@given(epochs=EPOCHS)
def test_given_any_epochs_when_encoded_and_decoded_then_the_same(epochs: list[LeaderEpoch]) -> None:
    assert decode(encode(epochs)) == epochs


@pytest.mark.parametrize(
    "data",
    [
        b"0\nnot a number\n",  # as Kafka's own fixture of a garbled file has it
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\n-1 0\n",
        b"0\n1\n0 -1\n",
        b"0\n1\n2147483648 0\n",
        b"0\n2\n2 0\n2 5\n",
        b"0\n2\n2 5\n1 7\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n2\n1 5\n2 4\n",
    ],
)
def test_given_a_malformed_file_when_decoded_then_refused(data: bytes) -> None:
    with pytest.raises(StoredFormatError):
        decode(data)


@given(data=any_bytes(EPOCHS.map(encode)))
def test_given_any_bytes_when_decoded_then_epochs_or_our_error(data: bytes) -> None:
    error = error_of(decode, data)

    assert error is None or isinstance(error, StoredFormatError)
