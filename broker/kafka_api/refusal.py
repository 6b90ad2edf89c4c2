"""Refusals: errors that only the Kafka protocol knows; and what people are told of any."""

from __future__ import annotations

from protocol.error_codes import ErrorCode
from protocol.errors import TidelogError


class InvalidReplicationFactorError(TidelogError):
    """More replicas than there are brokers, or none."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignmentError(TidelogError):
    """Partitions are assigned to brokers as they cannot be."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class PolicyViolationError(TidelogError):
    """The topic's settings forbid it."""

    code = ErrorCode.POLICY_VIOLATION


class UnknownTopicIdError(TidelogError):
    """There is no topic with that id, or not any more."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


def reason_of(error: TidelogError) -> str:
    """Return what to tell people of an error, never empty."""
    return str(error) or error.code.text
