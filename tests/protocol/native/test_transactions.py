"""TRANSACTIONS, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import FrameError
from protocol.identifiers import Buffer
from protocol.native import transactions
from protocol.native.request_types import RequestType
from protocol.native.requests import decode_type
from protocol.native.transactions import Aborted, TransactionsAnswer
from tests.support.damage import any_bytes, error_of

# Written by hand from the specification's tables.
REQUEST = bytes.fromhex("0000001c 000b 0004 6c6f6773 00000003 000000000000002a 0000000000000100")
ANSWER = bytes.fromhex(
    "00000026 0000 0000000000000064 00000001 0000000000000007 0000000000000028 0000000000000030"
)
REFUSED = bytes.fromhex("0000000e 0003 ffffffffffffffff 00000000")

DECODERS: list[tuple[Callable[[Buffer], Any], bytes, Any]] = [
    (transactions.decode_transactions, REQUEST, (b"logs", 3, 42, 256)),
    (
        transactions.decode_transactions_response,
        ANSWER,
        TransactionsAnswer(0, 100, [Aborted(7, 40, 48)]),
    ),
    (transactions.decode_transactions_response, REFUSED, TransactionsAnswer(3, -1, [])),
]


@pytest.mark.parametrize(("decode", "golden", "value"), DECODERS)
def test_given_golden_bytes_when_decoded_then_they_are_the_values(
    decode: Callable[[Buffer], Any], golden: bytes, value: Any
) -> None:
    assert int.from_bytes(golden[:4], "big") == len(golden) - 4
    assert decode(memoryview(golden)[4:]) == value


def test_given_values_when_encoded_then_they_are_the_golden_bytes() -> None:
    assert transactions.encode_transactions("logs", 3, 42, 256) == REQUEST
    assert transactions.encode_transactions_response(0, 100, [(7, 40, 48)]) == ANSWER
    assert transactions.encode_transactions_response(3) == REFUSED
    assert decode_type(memoryview(REQUEST)[4:]) == RequestType.TRANSACTIONS


@pytest.mark.parametrize(("decode", "golden", "value"), DECODERS)
def test_given_any_bytes_when_decoded_then_a_value_or_a_frame_error(
    decode: Callable[[Buffer], Any], golden: bytes, value: Any
) -> None:
    @given(data=any_bytes(st.just(golden[4:])))
    def check(data: bytes) -> None:
        error = error_of(decode, data)
        assert error is None or isinstance(error, FrameError)

    check()


@given(cut=st.integers(1, 30))
def test_given_a_cut_or_longer_frame_when_decoded_then_a_frame_error(cut: int) -> None:
    for decode, golden, _ in DECODERS:
        for frame in (golden[4:-cut], golden[4:] + bytes(cut)):
            with pytest.raises(FrameError):
                decode(frame)
