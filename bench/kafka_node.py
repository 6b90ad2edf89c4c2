"""An Apache Kafka node on loopback, with the JVM flags of its distribution, as a server to measure.

Its jars are those that the tests fetch with Maven (`tests/support/kafka_jars.py`): run them once.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.processes import Server

ROOT: Final = Path(__file__).parents[1]
CLUSTER_ID: Final = "dGlkZWxvZy1iZW5jaC0tLQ"
START_TIMEOUT_S: Final = 120.0
JVM_FLAGS: Final = (
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)  # fmt: skip


def missing() -> str | None:
    """Return what there is not, None if a node can be run."""
    if shutil.which("java") is None:
        return "there is no java"
    return None if _jars() is not None else "its jars are not there; `make test` fetches them"


def _jars() -> Path | None:
    found = [path for path in (ROOT / ".kafka-jars").glob("*") if (any(path.glob("kafka_2*.jar")))]
    return found[0] if found else None


@contextmanager
def node(directory: Path) -> Iterator[tuple[Server, float]]:
    """Run a fresh node with its defaults; yield it, and the seconds until it took connections."""
    directory.mkdir(parents=True)
    port, controller_port = free_ports(2)
    properties = directory / "server.properties"
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={directory / 'data'}\n"
        "offsets.topic.replication.factor=1\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "group.initial.rebalance.delay.ms=0\n"
    )
    tool = ("kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config")
    subprocess.run(_command(*tool, str(properties)), check=True, capture_output=True)
    started_s = time.perf_counter()
    with (directory / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            _command("kafka.Kafka", str(properties)), stdout=output, stderr=output
        )
    try:
        while not serves(port):
            if process.poll() is not None or time.perf_counter() > started_s + START_TIMEOUT_S:
                raise RuntimeError(
                    f"Kafka does not start: {(directory / 'output.txt').read_text()}"
                )
            time.sleep(0.02)
        yield Server(process, port), time.perf_counter() - started_s
    finally:
        process.terminate()
        process.wait(60)


def _command(*arguments: str) -> list[str]:
    return ["java", *JVM_FLAGS, "-cp", f"{_jars()}/*", *arguments]


def serves(port: int) -> bool:
    """Whether something accepts connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Return ports that nobody uses now; Kafka has to know its own before it starts."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
