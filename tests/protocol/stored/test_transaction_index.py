"""Transaction indexes, bytes to aborted transactions and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.stored.transaction_index import ENTRY, AbortedTransaction, decode, encode
from tests.support.damage import any_bytes, error_of

# As Apache Kafka 4.3.0 wrote it, and what its DumpLogSegments printed.
KAFKAS = bytes.fromhex("0000 00000000000003ed 0000000000000005 000000000000000a 000000000000000b")
KAFKAS_TRANSACTIONS = [
    AbortedTransaction(producer_id=1005, first_offset=5, last_offset=10, last_stable_offset=11)
]

OFFSET = st.integers(0, 2**62 - 1)  # two of them are an offset still
TRANSACTIONS = st.lists(
    st.builds(
        lambda producer_id, first, length, stable: AbortedTransaction(
            producer_id, first, first + length, stable
        ),
        OFFSET,
        OFFSET,
        OFFSET,
        OFFSET,
    ),
    max_size=5,
)


def test_given_kafkas_index_when_decoded_then_it_is_what_kafka_says() -> None:
    transactions = decode(KAFKAS)

    assert transactions == KAFKAS_TRANSACTIONS
    assert encode(transactions) == KAFKAS


def test_given_an_empty_index_when_decoded_then_no_transactions() -> None:
    assert decode(b"") == []


@given(transactions=TRANSACTIONS)
def test_given_any_transactions_when_encoded_and_decoded_then_the_same(
    transactions: list[AbortedTransaction],
) -> None:
    assert decode(encode(transactions)) == transactions


@pytest.mark.parametrize(
    "data",
    [
        KAFKAS[:-1],
        KAFKAS + b"\0",
        ENTRY.pack(1, 1005, 5, 10, 11),
        ENTRY.pack(0, 1005, -1, 10, 11),
        ENTRY.pack(0, 1005, 11, 10, 11),
    ],
)
def test_given_a_malformed_index_when_decoded_then_refused(data: bytes) -> None:
    with pytest.raises(StoredFormatError):
        decode(data)


@given(data=any_bytes(TRANSACTIONS.map(encode)))
def test_given_any_bytes_when_decoded_then_transactions_or_our_error(data: bytes) -> None:
    error = error_of(decode, data)

    assert error is None or isinstance(error, StoredFormatError)
