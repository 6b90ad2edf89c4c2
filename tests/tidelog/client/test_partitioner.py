"""Partitioner: Kafka's hash, and turns for messages without a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from tidelog.client.partitioner import Partitioner, murmur2


@given(st.binary(max_size=40))
def test_given_any_key_when_hashed_then_as_an_independent_client_does(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


def test_given_known_keys_when_hashed_then_as_kafkas_own_tests_say() -> None:
    """Values from Apache Kafka's UtilsTest, as signed 32-bit numbers."""
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}

    for key, signed in known.items():
        assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=20), st.integers(1, 50))
def test_given_a_key_when_placed_twice_then_in_the_same_legal_partition(
    key: bytes, partitions: int
) -> None:
    partitioner = Partitioner()

    first, second = (partitioner.partition(key, partitions) for _ in range(2))

    assert first == second
    assert 0 <= first < partitions


def test_given_messages_without_key_when_placed_then_runs_go_round_all_partitions() -> None:
    partitioner = Partitioner(run_length=3)

    placed = [partitioner.partition(None, 2) for _ in range(12)]

    assert placed == [0, 0, 0, 1, 1, 1] * 2
