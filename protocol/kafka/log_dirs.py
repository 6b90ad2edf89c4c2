"""DescribeLogDirs: what lies in which data directory."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import Int16, Int32, Int64, Struct, Wire


class DescribableLogDirTopic(Struct):
    topic: str = ""
    partitions: list[Int32] = []


class DescribeLogDirsRequest(Struct):
    topics: list[DescribableLogDirTopic] | None = []


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct):
    name: str = ""
    partitions: list[DescribeLogDirsPartition] = []


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = []
    total_bytes: Annotated[Int64, Wire("4+")] = -1
    usable_bytes: Annotated[Int64, Wire("4+")] = -1
    is_cordoned: Annotated[bool, Wire("5+")] = False


class DescribeLogDirsResponse(Struct):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Wire("3+")] = 0
    results: list[DescribeLogDirsResult] = []
