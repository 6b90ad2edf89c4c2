"""The Kafka protocol on the broker's partitions: one handler file per family of APIs."""
