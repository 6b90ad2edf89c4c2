"""The clean-shutdown marker's content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import StoredFormatError
from protocol.stored.clean_shutdown import NO_BROKER_EPOCH, decode, encode
from tests.support.damage import any_bytes, error_of


@pytest.mark.parametrize(
    ("kafkas", "broker_epoch"),
    [(b'{"version":0,"brokerEpoch":209}', 209), (b"", NO_BROKER_EPOCH)],  # of 4.3.0 and of 2.8.2
)
def test_given_kafkas_marker_when_decoded_then_its_epoch_comes_out(
    kafkas: bytes, broker_epoch: int
) -> None:
    assert decode(kafkas) == broker_epoch
    assert encode(broker_epoch) == kafkas


@given(broker_epoch=st.integers(-1, 2**63 - 1))
def test_given_any_epoch_when_encoded_and_decoded_then_the_same(broker_epoch: int) -> None:
    assert decode(encode(broker_epoch)) == broker_epoch


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"\xff",
        b"[]",
        b"{}",
        b"null",
        b'{"version":1,"brokerEpoch":1}',
        b'{"version":0}',
        b'{"version":0,"brokerEpoch":true}',
        b'{"version":0,"brokerEpoch":1.0}',
        b'{"version":0,"brokerEpoch":-2}',
        b'{"version":0,"brokerEpoch":9223372036854775808}',
        b"[" * 1000,
        b" " * 2000,
    ],
)
def test_given_a_malformed_marker_when_decoded_then_refused(data: bytes) -> None:
    with pytest.raises(StoredFormatError):
        decode(data)


@given(data=any_bytes(st.just(encode(209))))
def test_given_any_bytes_when_decoded_then_an_epoch_or_our_error(data: bytes) -> None:
    error = error_of(decode, data)

    assert error is None or isinstance(error, StoredFormatError)
