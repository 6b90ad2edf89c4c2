"""PartitionTable: what requests find."""

from __future__ import annotations

from uuid import UUID

from broker.partition_table import PartitionTable


def test_given_topics_with_ids_when_published_and_deleted_then_each_id_names_its_own() -> None:
    table = PartitionTable()
    names_by_id = table.names_by_id
    first, second, third = (UUID(int=number) for number in (1, 2, 3))

    table.publish("a", first, [])
    table.publish("b", second, [])
    table.unpublish("a")
    table.publish("a", third, [])

    assert names_by_id == {second.bytes: b"b", third.bytes: b"a"}
