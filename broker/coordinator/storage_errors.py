"""Storage errors: what clients of a coordinator are told when something could not be written.

As Kafka tells them: so that they look for the coordinator again, or give up, as it makes sense.
"""

from __future__ import annotations

from typing import Final

from protocol.error_codes import ErrorCode

__all__ = ["group_error", "offset_error"]

_E = ErrorCode
_COMMON: Final = {
    _E.UNKNOWN_TOPIC_OR_PARTITION: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_ENOUGH_REPLICAS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.REQUEST_TIMED_OUT: _E.COORDINATOR_NOT_AVAILABLE,
    _E.INVALID_PARTITIONS: _E.COORDINATOR_NOT_AVAILABLE,
    _E.NOT_LEADER_OR_FOLLOWER: _E.NOT_COORDINATOR,
    _E.KAFKA_STORAGE_ERROR: _E.NOT_COORDINATOR,
}
_TOO_LARGE: Final = (_E.MESSAGE_TOO_LARGE, _E.RECORD_LIST_TOO_LARGE, _E.INVALID_FETCH_SIZE)


def group_error(error: ErrorCode) -> ErrorCode:
    """Return what a member is told whose group could not be written down."""
    return _E.UNKNOWN_SERVER_ERROR if error in _TOO_LARGE else _COMMON.get(error, error)


def offset_error(error: ErrorCode) -> ErrorCode:
    """Return what whoever commits is told."""
    return _E.INVALID_COMMIT_OFFSET_SIZE if error in _TOO_LARGE else _COMMON.get(error, error)
