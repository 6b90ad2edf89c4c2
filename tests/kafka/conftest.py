"""Apache Kafka's own programs, for the tests that hold our files against them."""

from __future__ import annotations

import pytest

from tests.support.kafka_jars import KafkaPrograms, kafka_programs


@pytest.fixture(scope="session")
def kafka() -> KafkaPrograms:
    """Kafka's programs; the test is skipped, loudly, where they cannot be had."""
    return kafka_programs()
