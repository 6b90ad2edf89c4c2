"""A real Apache Kafka node of one process (KRaft), for tests."""

from __future__ import annotations

import select
import signal
import subprocess
import time
from pathlib import Path

from bench.kafka_node import free_ports, serves
from tests.support.kafka_jars import KafkaPrograms

CLUSTER_ID = "dGlkZWxvZy10ZXN0cy0tLQ"  # any 16 bytes, as Kafka writes them
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0


class KafkaNode:
    """A node with its log directory at `data`; may be started again after it ended."""

    def __init__(self, kafka: KafkaPrograms, directory: Path) -> None:
        self.data = directory / "kafka-data"
        self.output = directory / "kafka.txt"
        self._kafka, self._properties = kafka, directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        self.port, controller_port = free_ports(2)
        self.address = f"127.0.0.1:{self.port}"
        self._properties.write_text(
            f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={self.data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
"""
        )
        kafka.run(
            "kafka.tools.StorageTool",
            *("format", "--cluster-id", CLUSTER_ID, "--config", self._properties),
        )

    def start(self) -> KafkaNode:
        """Start it and wait until it says that it serves."""
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._kafka.command("kafka.Kafka", self._properties),
                stdout=subprocess.PIPE,
                stderr=output,
            )
        assert self._process.stdout is not None
        deadline_s = time.monotonic() + START_TIMEOUT_S
        said = b""
        while not serves(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                self.kill()
                raise AssertionError(f"Kafka does not start: {said!r} {self.output.read_text()}")
            readable, _, _ = select.select([self._process.stdout], [], [], 0.2)
            if readable:
                said += self._process.stdout.read1()
        return self

    def stop(self) -> None:
        """Have it shut down cleanly."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=STOP_TIMEOUT_S)

    def kill(self) -> None:
        """End it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate(timeout=STOP_TIMEOUT_S)

    def __enter__(self) -> KafkaNode:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
