"""Own topics: those of a broker that hold no records of users."""

from __future__ import annotations

from typing import Final

from protocol.internal_topics import is_internal

__all__ = ["NOTES_TOPIC", "is_for_users"]

NOTES_TOPIC: Final = "__tidelog_transfers"
"""What jobs that copy records to topics remember; see `tidelog.spark.jobs.transfer_notes`."""


def is_for_users(topic: str) -> bool:
    """Whether who reads all topics wants this one; the others are read if they are named."""
    return not is_internal(topic) and topic != NOTES_TOPIC
