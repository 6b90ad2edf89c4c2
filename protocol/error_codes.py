"""ErrorCode: the one table of error codes of both protocols.

Numbers and names are Apache Kafka's (its protocol guide, "Error codes"), so that a client of either
protocol finds what it knows. The native protocol uses the rows its specification names.
"""

from __future__ import annotations

import enum
from typing import Final


class ErrorCode(enum.IntEnum):
    """A code as it stands on the wire, int16."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without a change by the caller."""
        return self in RETRIABLE

    @property
    def text(self) -> str:
        """One sentence for people, where the raiser has nothing better to say."""
        return TEXTS[self]


RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)

TEXTS: Final[dict[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "The broker met an error it did not expect; its log says which.",
    ErrorCode.NONE: "No error.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset is outside the partition's log.",
    ErrorCode.CORRUPT_MESSAGE: "The bytes are damaged: a checksum, length or count is wrong.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This broker has no such topic or partition.",
    ErrorCode.INVALID_FETCH_SIZE: "The fetch size is invalid.",
    ErrorCode.LEADER_NOT_AVAILABLE: "The partition has no leader at the moment.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "This broker does not lead the partition.",
    ErrorCode.REQUEST_TIMED_OUT: "The time allowed for the request ran out.",
    ErrorCode.BROKER_NOT_AVAILABLE: "The broker is not available.",
    ErrorCode.REPLICA_NOT_AVAILABLE: "The replica is not available.",
    ErrorCode.MESSAGE_TOO_LARGE: "The message is larger than the topic's max.message.bytes.",
    ErrorCode.STALE_CONTROLLER_EPOCH: "The controller epoch is stale.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "The metadata beside the committed offset is too large.",
    ErrorCode.NETWORK_EXCEPTION: "The connection was lost before an answer came.",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is still loading.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.NOT_COORDINATOR: "This broker does not coordinate that group or transaction.",
    ErrorCode.INVALID_TOPIC: "The topic name is not legal, is an internal topic's, or differs from "
    "another topic's only in '.' and '_'.",
    ErrorCode.RECORD_LIST_TOO_LARGE: "The record batch is larger than the topic's segment.bytes.",
    ErrorCode.NOT_ENOUGH_REPLICAS: "Too few replicas are in sync.",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "The records were written to fewer replicas than required.",
    ErrorCode.INVALID_REQUIRED_ACKS: "acks must be -1, 0 or 1.",
    ErrorCode.ILLEGAL_GENERATION: "The generation is not the group's current one.",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "The member's protocol does not fit those of the group.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.UNKNOWN_MEMBER_ID: "The group does not know this member.",
    ErrorCode.INVALID_SESSION_TIMEOUT: "The session timeout is outside the allowed range.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing: join again.",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "The offset commit is too large.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorised to access the topic.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorised to access the group.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorised for this action on the cluster.",
    ErrorCode.INVALID_TIMESTAMP: "The record's timestamp is outside the allowed range.",
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: "The SASL mechanism is not enabled.",
    ErrorCode.ILLEGAL_SASL_STATE: "The request does not fit the state of the SASL exchange.",
    ErrorCode.UNSUPPORTED_VERSION: "The broker does not support this version of the request.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "A topic of this name exists already.",
    ErrorCode.INVALID_PARTITIONS: "The number of partitions is invalid.",
    ErrorCode.INVALID_REPLICATION_FACTOR: "The replication factor is invalid.",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "The replica assignment is invalid.",
    ErrorCode.INVALID_CONFIG: "A setting is unknown or its value is invalid.",
    ErrorCode.NOT_CONTROLLER: "This broker is not the controller.",
    ErrorCode.INVALID_REQUEST: "The request contradicts itself or a field is out of range.",
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "The message format does not support this request.",
    ErrorCode.POLICY_VIOLATION: "A policy forbids the request.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The sequence number or expected offset is not the next one.",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "The sequence number was seen before.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is older than the current one.",
    ErrorCode.INVALID_TXN_STATE: "The transaction is not in a state that allows this.",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "The producer id is not assigned to this transactional id.",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "The transaction timeout is larger than allowed.",
    ErrorCode.CONCURRENT_TRANSACTIONS: "Another transaction of this producer is still being completed.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "The transaction coordinator has been fenced.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not authorised for this transactional id.",
    ErrorCode.SECURITY_DISABLED: "Security features are switched off.",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "Not tried, because another part of the request failed.",
    ErrorCode.KAFKA_STORAGE_ERROR: "The broker cannot read or write its disk.",
    ErrorCode.LOG_DIR_NOT_FOUND: "The log directory does not exist.",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "Authentication failed.",
    ErrorCode.UNKNOWN_PRODUCER_ID: "The producer id is not known to this partition (any more).",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "The partitions are being reassigned.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens are switched off.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "There is no such delegation token.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The delegation token belongs to someone else.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation tokens cannot be asked for on this connection.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Not authorised to use the delegation token.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "The principal type is not supported.",
    ErrorCode.NON_EMPTY_GROUP: "The group still has members.",
    ErrorCode.GROUP_ID_NOT_FOUND: "There is no such group.",
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: "There is no such fetch session.",
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: "The fetch session's epoch is not the expected one.",
    ErrorCode.LISTENER_NOT_FOUND: "The leader has no listener of that name.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Deleting topics is switched off.",
    ErrorCode.FENCED_LEADER_EPOCH: "The leader epoch is older than the broker's.",
    ErrorCode.UNKNOWN_LEADER_EPOCH: "The leader epoch is newer than the broker's.",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "The compression codec is not supported here.",
    ErrorCode.STALE_BROKER_EPOCH: "The broker epoch is stale.",
    ErrorCode.OFFSET_NOT_AVAILABLE: "The leader's high watermark has not caught up yet.",
    ErrorCode.MEMBER_ID_REQUIRED: "Join again with the member id that was handed out.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader is not available.",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "The group is full.",
    ErrorCode.FENCED_INSTANCE_ID: "Another member with this instance id took over.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "No eligible leader is available.",
    ErrorCode.ELECTION_NOT_NEEDED: "The partition has the wanted leader already.",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "No reassignment is in progress.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic.",
    ErrorCode.INVALID_RECORD: "A record is invalid: the topic's rules or the batch's own header refuse it.",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "A transaction still holds offsets of this partition.",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "The request rate quota is exceeded.",
    ErrorCode.PRODUCER_FENCED: "A newer producer with this transactional id took over.",
    ErrorCode.RESOURCE_NOT_FOUND: "The request names something that does not exist.",
    ErrorCode.DUPLICATE_RESOURCE: "The request names something twice.",
    ErrorCode.UNACCEPTABLE_CREDENTIAL: "The credential does not meet the requirements.",
    ErrorCode.INCONSISTENT_VOTER_SET: "The voter set is not consistent.",
    ErrorCode.INVALID_UPDATE_VERSION: "The update version is invalid.",
    ErrorCode.FEATURE_UPDATE_FAILED: "Updating the features failed.",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "The forwarded principal could not be read.",
    ErrorCode.SNAPSHOT_NOT_FOUND: "There is no such snapshot.",
    ErrorCode.POSITION_OUT_OF_RANGE: "The position is out of range.",
    ErrorCode.UNKNOWN_TOPIC_ID: "This broker has no topic with this id.",
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "A broker with this id is registered already.",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "The broker id is not registered.",
    ErrorCode.INCONSISTENT_TOPIC_ID: "The topic id in the request is not the log's.",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "The cluster id in the request is not this cluster's.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "There is no such transactional id.",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "The fetch session met inconsistent topic ids.",
    ErrorCode.INELIGIBLE_REPLICA: "The new in-sync replicas hold an ineligible one.",
    ErrorCode.NEW_LEADER_ELECTED: "The leader was changed by this request.",
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: "The offset lives in tiered storage.",
    ErrorCode.FENCED_MEMBER_EPOCH: "The member's epoch was fenced: rejoin.",
    ErrorCode.UNRELEASED_INSTANCE_ID: "The instance id is still in use by another member.",
    ErrorCode.UNSUPPORTED_ASSIGNOR: "The assignor is not supported.",
    ErrorCode.STALE_MEMBER_EPOCH: "The member's epoch is stale: retry with the new one.",
    ErrorCode.MISMATCHED_ENDPOINT_TYPE: "The request went to an endpoint of the wrong type.",
    ErrorCode.UNSUPPORTED_ENDPOINT_TYPE: "The endpoint type is not known.",
    ErrorCode.UNKNOWN_CONTROLLER_ID: "The controller id is not known.",
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID: "The telemetry subscription id is not known.",
    ErrorCode.TELEMETRY_TOO_LARGE: "The telemetry is too large.",
    ErrorCode.INVALID_REGISTRATION: "The controller considers the registration invalid.",
    ErrorCode.TRANSACTION_ABORTABLE: "The transaction has to be aborted.",
    ErrorCode.INVALID_RECORD_STATE: "The record's state does not allow this.",
    ErrorCode.SHARE_SESSION_NOT_FOUND: "There is no such share session.",
    ErrorCode.INVALID_SHARE_SESSION_EPOCH: "The share session's epoch is invalid.",
    ErrorCode.FENCED_STATE_EPOCH: "The share coordinator fenced the state epoch.",
    ErrorCode.INVALID_VOTER_KEY: "The voter key is not the replica's.",
    ErrorCode.DUPLICATE_VOTER: "The voter is in the set already.",
    ErrorCode.VOTER_NOT_FOUND: "The voter is not in the set.",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "The regular expression is invalid.",
    ErrorCode.REBOOTSTRAP_REQUIRED: "The client has to bootstrap anew.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY: "The streams topology is invalid.",
    ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH: "The streams topology epoch is invalid.",
    ErrorCode.STREAMS_TOPOLOGY_FENCED: "The streams topology epoch is outdated.",
    ErrorCode.SHARE_SESSION_LIMIT_REACHED: "The limit of share sessions is reached.",
}
assert len(TEXTS) == len(ErrorCode), "every code has a text"


def error_name(code: int) -> str:
    """Return the name of a code from the wire, also of one this version does not know."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"UNKNOWN_ERROR_CODE_{code}"
