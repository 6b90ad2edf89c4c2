"""Clients of the native protocol, blocking and asyncio, over one core without I/O."""

from protocol.compression import Codec
from protocol.errors import BrokerError, ErrorCode, TidelogError
from tidelog.client.accumulator import ProducerSettings
from tidelog.client.async_client import AsyncClient
from tidelog.client.async_producer import AsyncProducer
from tidelog.client.blocking_client import Client
from tidelog.client.blocking_producer import Producer
from tidelog.client.calls import EARLIEST, LATEST
from tidelog.client.errors import (
    ClientClosedError,
    ConnectionLostError,
    DamagedBatchError,
    FetchTooLargeError,
    ResponseTooLargeError,
    UnexpectedOffsetError,
)
from tidelog.client.values import (
    AbortedTransaction,
    DeletedRecords,
    Delivery,
    FetchAnswer,
    FetchFrom,
    Message,
    PartitionInfo,
    Start,
    StoredBatches,
    TopicInfo,
    Transactions,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "AbortedTransaction",
    "AsyncClient",
    "AsyncProducer",
    "BrokerError",
    "Client",
    "ClientClosedError",
    "Codec",
    "ConnectionLostError",
    "DamagedBatchError",
    "DeletedRecords",
    "Delivery",
    "ErrorCode",
    "FetchAnswer",
    "FetchFrom",
    "FetchTooLargeError",
    "Message",
    "PartitionInfo",
    "Producer",
    "ProducerSettings",
    "ResponseTooLargeError",
    "Start",
    "StoredBatches",
    "TidelogError",
    "TopicInfo",
    "Transactions",
    "UnexpectedOffsetError",
]
