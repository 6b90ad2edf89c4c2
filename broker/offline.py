"""Offline: what may be done without a broker: its configuration, and a stopped broker's files.

One of the two doors through which `tidelog` enters `broker` (the other is `daemon`).

    load(file, environment=..., settings=...)   a configuration and where each value came from
    all_keys(), value_at(config, path), ...     its keys, for `config print`
    verify_directory(directory)                 a finding for each file: every CRC, offsets, indexes
    plan_repairs(directory)                     what can be done about what is found; and does it
    log_bytes(directory)                        how much of it there is to read
    dump_segment(path)                          batches, records, index entries of one file
    explain_stopped(directories, topic, ...)    why each segment is kept, or when it goes
    plan_import, check_import, carry_out        take over the topics of a stopped Apache Kafka
"""

from __future__ import annotations

from broker import log_setup
from broker.config import Config
from broker.config_example import documentation, example_text
from broker.config_keys import Key, all_keys, human_text, toml_text
from broker.config_sources import (
    InvalidConfigurationError,
    LoadedConfig,
    Origin,
    Problem,
    Source,
    load,
    value_at,
)
from broker.stopped.findings import FileFinding, Severity
from broker.stopped.findings import Problem as FileProblem
from broker.stopped.kafka_import import (
    ImportPlan,
    LeftOut,
    PartitionToImport,
    TopicToImport,
    carry_out,
    check_import,
    plan_import,
)
from broker.stopped.repair import Repair, RepairPlan, plan_repairs
from broker.stopped.segment_dump import (
    Dumped,
    DumpedBatch,
    DumpedProblem,
    DumpedRecord,
    dump_segment,
)
from broker.stopped.segment_explanation import explain_stopped
from broker.stopped.verification import log_bytes, partition_directories, verify_directory
from broker.storage.retention_explained import (
    PartitionExplanation,
    SegmentExplanation,
    TopicExplanation,
)
from protocol.stored.index_entries import OffsetIndexEntry, TimeIndexEntry
from protocol.stored.producer_snapshot import ProducerEntry
from protocol.stored.transaction_index import AbortedTransaction

__all__ = [
    "AbortedTransaction",
    "Config",
    "Dumped",
    "DumpedBatch",
    "DumpedProblem",
    "DumpedRecord",
    "FileFinding",
    "FileProblem",
    "ImportPlan",
    "InvalidConfigurationError",
    "Key",
    "LeftOut",
    "LoadedConfig",
    "OffsetIndexEntry",
    "Origin",
    "PartitionExplanation",
    "PartitionToImport",
    "Problem",
    "ProducerEntry",
    "Repair",
    "RepairPlan",
    "SegmentExplanation",
    "Severity",
    "Source",
    "TimeIndexEntry",
    "TopicExplanation",
    "TopicToImport",
    "all_keys",
    "carry_out",
    "check_import",
    "documentation",
    "dump_segment",
    "example_text",
    "explain_stopped",
    "human_text",
    "load",
    "log_bytes",
    "log_setup",
    "partition_directories",
    "plan_import",
    "plan_repairs",
    "toml_text",
    "value_at",
    "verify_directory",
]
