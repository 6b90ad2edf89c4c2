"""AppendOrigin: who appends, and so what is checked and what is accepted, as in Apache Kafka."""

from __future__ import annotations

import enum


class AppendOrigin(enum.Enum):
    """Whose batches they are."""

    CLIENT = "client"
    """A producer. Sequences and epochs are checked, duplicates recognized; control batches are
    refused, transactional ones unless the caller has verified the transaction."""
    REPLICATION = "replication"
    """The leader, which has checked everything: what it has is taken as it is."""
    COORDINATOR = "coordinator"
    """A coordinator of this broker: markers, and batches without sequences. Epochs are checked."""
