"""Spark's own Kafka connector, jar and all, as a user's job has it; see programs/spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka_jars import fetched_jars
from tests.support.running_broker import BrokerProcess

pytestmark = pytest.mark.timeout(900)  # the jars may have to be fetched first
PROGRAM = Path(__file__).with_name("programs") / "spark"
TOPIC = "spark-connector"


def test_given_sparks_own_connector_when_it_writes_reads_and_streams_then_all_is_there_once(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    jars = fetched_jars(PROGRAM / "pom.xml")

    done = subprocess.run(
        [sys.executable, PROGRAM / "connector.py", broker.kafka_address, TOPIC, jars, tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    expected = [[f"key {n}", f"value {n}" if n % 5 else None, str(n)] for n in range(200)]
    assert sorted(said[TOPIC]) == sorted(expected)  # two tasks wrote it, in any order
    assert said[f"{TOPIC}-copy"] == said[TOPIC]
    assert [each for each in said["batches"] if each] == [64, 64, 64, 8]
