"""The clients that go through the same scenarios, by name."""

from __future__ import annotations

from tests.clients.adapters.aiokafka import AiokafkaClient
from tests.clients.adapters.client import Client
from tests.clients.adapters.confluent import ConfluentClient
from tests.clients.adapters.kafka_python import KafkaPythonClient

CLIENTS: dict[str, type[Client]] = {
    "confluent-kafka": ConfluentClient,
    "kafka-python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
}
