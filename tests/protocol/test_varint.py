"""Varints: golden bytes, every value there and back, and nothing overlong."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.record.util import decode_varint as kafka_decode_varint
from kafka.record.util import encode_varint as kafka_encode_varint

from protocol import varint
from protocol.errors import CorruptMessageError

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
UINT32 = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("value", "golden"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (300, "d804"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_given_an_int32_when_encoded_then_the_bytes_are_kafkas(value: int, golden: str) -> None:
    encoded = varint.encode_varint(value), varint.encode_varlong(value)

    assert [data.hex() for data in encoded] == [golden, golden]


@pytest.mark.parametrize(
    ("value", "golden"), [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01")]
)
def test_given_the_ends_of_int64_when_encoded_then_ten_bytes(value: int, golden: str) -> None:
    encoded = varint.encode_varlong(value)

    assert encoded.hex() == golden


@pytest.mark.parametrize(("value", "golden"), [(0, "00"), (127, "7f"), (300, "ac02")])
def test_given_unsigned_when_encoded_then_no_zigzag(value: int, golden: str) -> None:
    encoded = varint.encode_unsigned_varint(value)

    assert encoded.hex() == golden


@given(value=INT32, before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_given_any_int32_when_encoded_then_it_comes_back(
    value: int, before: bytes, after: bytes
) -> None:
    encoded = varint.encode_varint(value)
    data = memoryview(before + encoded + after)

    assert varint.decode_varint(data, len(before)) == (value, len(before) + len(encoded))
    assert varint.size_of_varint(value) == len(encoded)


@given(value=INT64)
@example(value=2**63 - 1)
@example(value=-(2**63))
def test_given_any_int64_when_encoded_then_it_comes_back_and_kafka_python_agrees(
    value: int,
) -> None:
    theirs = bytearray()
    kafka_encode_varint(value, theirs.append)

    encoded = varint.encode_varlong(value)

    assert encoded == theirs
    assert varint.decode_varlong(encoded) == (value, len(encoded))
    assert kafka_decode_varint(encoded)[0] == value
    assert varint.size_of_varlong(value) == len(encoded)


@given(value=UINT32)
def test_given_any_uint32_when_encoded_then_it_comes_back(value: int) -> None:
    encoded = varint.encode_unsigned_varint(value)

    assert varint.decode_unsigned_varint(encoded) == (value, len(encoded))
    assert varint.size_of_unsigned_varint(value) == len(encoded)


@pytest.mark.parametrize(
    ("encode", "value"),
    [
        (varint.encode_varint, 2**31),
        (varint.encode_varint, -(2**31) - 1),
        (varint.encode_varlong, 2**63),
        (varint.encode_varlong, -(2**63) - 1),
        (varint.encode_unsigned_varint, -1),
        (varint.encode_unsigned_varint, 2**32),
    ],
)
def test_given_a_number_too_large_when_encoded_then_value_error(encode, value) -> None:
    with pytest.raises(ValueError, match=str(value)):
        encode(value)


@pytest.mark.parametrize("data", ["", "80", "8080808080", "808080808000", "ffffffff1f"])
@pytest.mark.parametrize("decode", [varint.decode_varint, varint.decode_unsigned_varint])
def test_given_a_varint_cut_or_overlong_when_decoded_then_corrupt(decode, data) -> None:
    with pytest.raises(CorruptMessageError):
        decode(bytes.fromhex(data))


@pytest.mark.parametrize(
    "data", ["", "ff" * 9, "80" * 10, "80" * 10 + "00", "ff" * 9 + "03", "80" * 9 + "02"]
)
def test_given_a_varlong_cut_or_overlong_when_decoded_then_corrupt(data: str) -> None:
    with pytest.raises(CorruptMessageError):
        varint.decode_varlong(bytes.fromhex(data))


def test_given_padding_when_decoded_then_it_is_read_as_kafka_reads_it() -> None:
    padded = bytes.fromhex("828000")

    assert varint.decode_varint(padded) == (1, 3)
    assert varint.decode_varlong(padded) == (1, 3)


@given(data=st.binary(max_size=12), position=st.integers(0, 12))
def test_given_any_bytes_when_decoded_then_a_value_or_our_error(data: bytes, position: int) -> None:
    for decode in (varint.decode_varint, varint.decode_varlong, varint.decode_unsigned_varint):
        try:
            value, end = decode(data, position)
        except CorruptMessageError:
            continue
        assert -(2**63) <= value < 2**63
        assert position < end <= len(data)


def test_given_varints_in_a_row_when_kafka_python_reads_them_then_they_are_the_same() -> None:
    data = b"".join(varint.encode_varint(value) for value in range(-300, 300))

    values, position = [], 0
    while position < len(data):
        value, position = kafka_decode_varint(data, position)
        values.append(value)

    assert values == list(range(-300, 300))
