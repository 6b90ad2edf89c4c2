"""Manual assignments: a client says which brokers hold which partition; there is one broker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.kafka_api.refusal import InvalidReplicaAssignmentError as _Refused


def check_assignments(numbers: Iterable[int], brokers: Iterable[Sequence[int]], node: int) -> int:
    """Return how many partitions are assigned.

    Args:
        numbers: Of the partitions.
        brokers: Of each of them.

    Raises:
        InvalidReplicaAssignmentError: they are not numbered from 0 on, or not all to be on broker
            `node`, and there once.
    """
    listed = sorted(numbers)
    if len(set(listed)) != len(listed):
        raise _Refused("a partition is assigned twice")
    if listed != list(range(len(listed))):
        raise _Refused("partitions are not numbered from 0 on without gaps")
    for replicas in brokers:
        if not replicas:
            raise _Refused("a partition is assigned to no broker")
        if len(set(replicas)) != len(replicas):
            raise _Refused(f"a partition is assigned to a broker twice: {list(replicas)}")
        unknown = [broker for broker in replicas if broker != node]
        if unknown:
            raise _Refused(f"there is no broker {unknown[0]}, only {node}")
    return len(listed)
