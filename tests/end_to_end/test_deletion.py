"""Deleting records of a real daemon: readers under way, kill -9, settings changed at run time."""

import socket
import struct
import time

import pytest

from protocol.native import requests
from tests.support.command_line import run
from tests.support.running_broker import BrokerProcess
from tidelog.client import LATEST, BrokerError, Client, ErrorCode

MIB = 1024 * 1024
SEGMENT_BYTES = 8 * MIB
WAIT_S = 30.0


def fill(client: Client, topic: str, size_bytes: int) -> None:
    with client.producer() as producer:
        for number in range(size_bytes // (64 * 1024)):
            producer.produce(topic, b"%08d" % number * (8 * 1024))


def log_files(broker: BrokerProcess, topic: str) -> list[str]:
    return sorted(path.name for path in (broker.data_directory / f"{topic}-0").glob("*.log*"))


def wait_until_gone(broker: BrokerProcess, client: Client, topic: str, name: str) -> None:
    """Until no file of a segment is left; each look is held back by the broker for a moment."""
    deadline_s = time.monotonic() + WAIT_S
    while any(each.startswith(name) for each in log_files(broker, topic)):
        assert time.monotonic() < deadline_s, log_files(broker, topic)
        end = client.offsets(topic, time_ms=LATEST)[0]
        client.fetch(topic, 0, end, max_wait_ms=50)


class SlowReader:
    """Asks for much, and takes it in small pieces, when told to."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        self._socket.settimeout(WAIT_S)
        self._socket.connect((host, int(port)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def ask(self, topic: str, max_bytes: int, message_format: int) -> int:
        """Send a FETCH from offset 0; return the size of what will come, and read none of it."""
        self._socket.sendall(requests.encode_fetch(topic, 0, 0, max_bytes, 1, 0, message_format))
        total_length, error = struct.unpack(">ih", self.read(6))
        assert error == 0
        return total_length - 2

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(min(64 * 1024, size - len(data)))
            assert piece, f"the connection ended after {len(data)} of {size} bytes"
            data += piece
        return data


@pytest.mark.parametrize("message_format", [2, 0], ids=["batches", "messages"])
@pytest.mark.parametrize("rule", ["retention.bytes", "delete-records"])
def test_given_a_slow_reader_when_its_segment_is_deleted_then_it_reads_on_to_the_end(
    tmp_path, rule, message_format
):
    """R39. Even of a file that is unlinked at once; and whoever comes later is told."""
    with (
        BrokerProcess(tmp_path, "http.enabled=false", "storage.retention_check_ms=100") as broker,
        Client(broker.address) as client,
        SlowReader(broker.address) as slow,
    ):
        settings = {"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "0"}
        client.create_topic("logs", 1, settings)
        fill(client, "logs", 3 * SEGMENT_BYTES)
        with SlowReader(broker.address) as before:
            expected = before.read(before.ask("logs", SEGMENT_BYTES, message_format))
        size = slow.ask("logs", SEGMENT_BYTES, message_format)
        taken = slow.read(100_000)

        if rule == "retention.bytes":
            client.alter_topic("logs", {rule: "1"})
        else:
            client.delete_records("logs", {0: LATEST})
        wait_until_gone(broker, client, "logs", f"{0:020}.log")
        with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
            client.fetch("logs", 0, 0)
        taken += slow.read(size - len(taken))

        assert size > SEGMENT_BYTES // 2  # more than the sockets' buffers take
        assert taken == expected
        assert broker.stop() == 0


def test_given_deleted_records_and_new_settings_when_killed_at_once_then_they_stay_so(tmp_path):
    """Both are durable before their answers."""
    with BrokerProcess(tmp_path, "http.enabled=false") as broker:
        with Client(broker.address) as client:
            client.create_topic("logs", 1, {"retention.ms": "-1"})
            fill(client, "logs", MIB)
        for start in range(1, 6):
            with Client(broker.address) as client:
                (deleted,) = client.delete_records("logs", {0: start})
                client.alter_topic("logs", {"max.message.bytes": str(100_000 + start)})
                broker.kill()
            broker.start()

            with Client(broker.address) as client:
                (info,) = client.topics("logs")
                with pytest.raises(BrokerError) as below:
                    client.fetch("logs", 0, start - 1)
                first = client.fetch("logs", 0, start, max_bytes=1).messages[0].offset
                with client.producer() as producer:
                    fits = producer.produce("logs", bytes(99_000 + start)).exception()
                    too_large = producer.produce("logs", bytes(100_001 + start)).exception()
                assert fits is None
                assert too_large is not None
            assert deleted.log_start_offset == info.partitions[0].log_start_offset == start
            assert below.value.error_code is ErrorCode.OFFSET_OUT_OF_RANGE
            assert first == start
        assert broker.stop() == 0


def test_given_no_auto_create_when_produced_to_a_topic_that_is_not_there_then_it_is_soon_told(
    tmp_path,
):
    """And one that is made in that moment gets the messages."""
    settings = ("http.enabled=false", "topics.auto_create=false")
    with BrokerProcess(tmp_path, *settings) as broker, Client(broker.address) as client:
        started_s = time.monotonic()
        outcome = run("produce", "nowhere", "--broker", broker.address, "--quiet", stdin=b"a\nb\n")
        took_s = time.monotonic() - started_s
        with client.producer(linger_s=0) as producer:
            future = producer.produce("late", b"x")
            client.create_topic("late")
            delivery = future.result(WAIT_S)

        assert outcome.code == 1
        assert "there is no nowhere-0, and producing does not make it" in outcome.errors
        assert "UNKNOWN_TOPIC_OR_PARTITION" in outcome.errors
        assert took_s < 15  # the delivery timeout is 120
        assert delivery.offset == 0
