"""Deleting topics while their logs are written to and flushed."""

from __future__ import annotations

import pytest

from protocol.errors import StorageError
from protocol.native import requests
from tests.support.native_broker import NativeBroker, batch

PARTITIONS = 20
"""More than are renamed between two turns of the loop."""


def test_given_bytes_behind_the_flush_under_way_when_deleted_then_the_broker_lives():
    """A log that is going is flushed no more: a sync of a renamed directory would be fatal."""
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs", PARTITIONS, {"segment.bytes": "150"})
        for _ in range(2):  # the second batches roll, while the first ones are being flushed
            for number in range(PARTITIONS):
                sent = broker.produce("logs", batch(b"x" * 50), partition=number, settle=False)
                assert sent.error == 0
            broker.loop.settle()
        flushed = broker.flushes.submitted

        deleting = broker.send(requests.encode_delete_topic("logs"))
        broker.flushes.release()
        broker.loop.settle()
        late = broker.flushes.submitted - flushed
        broker.flushes.follow()
        broker.loop.settle()

        assert deleting.status == (0, "")
        assert broker.fatal == []
        assert late == 0


def test_given_a_produce_that_comes_late_when_deleted_then_nothing_is_appended():
    """Who still holds the partition, such as a conversion under way, learns that it is gone."""
    with NativeBroker(hold_flush=True) as broker:
        broker.create_topic("logs")
        partition = broker.partition("logs")
        broker.produce("logs", batch(b"a"))
        deleting = broker.send(requests.encode_delete_topic("logs"))

        with pytest.raises(StorageError):
            partition.log.append(memoryview(bytearray(batch(b"late"))))
        broker.flushes.follow()
        broker.loop.settle()

        assert deleting.status == (0, "")
        assert broker.fatal == []
