"""Partitions of many keys, against the client's, which takes them one by one."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client import partitioner
from tidelog.segments.murmur2 import key_partitions, murmur2

KEYS = st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=60)


@given(keys=KEYS, skipped=st.integers(0, 5))
def test_given_any_keys_when_hashed_then_it_is_what_the_client_makes_of_each(keys, skipped):
    column = pa.array(keys, type=pa.binary())[skipped:]

    assert murmur2(column).tolist() == [partitioner.murmur2(key or b"") for key in keys[skipped:]]


def test_given_keys_when_partitions_are_asked_for_then_they_are_those_of_kafka():
    # Of Kafka's own UtilsTest: murmur2 of these is 1, -1 and so on, as signed numbers.
    keys = pa.array([b"21", b"foobar", b"a-little-bit-long-string", b"abc"])

    assert murmur2(keys).view("i4").tolist() == [-973932308, -790332482, -985981536, 479470107]
    assert key_partitions(keys, 7).tolist() == [
        (number & 0x7FFFFFFF) % 7 for number in (-973932308, -790332482, -985981536, 479470107)
    ]
