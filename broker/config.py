"""Config: everything that can be set, typed; one struct a table of the TOML file.

A key has its field's name. The text under a field is its documentation: config.example.toml and
docs/configuration.md are made from it. A key that ends in `_bytes` or has `bytes` in its name is a
size ("1GiB" or bytes), one that ends in `_ms` or has `_ms_` in it a duration ("7d" or
milliseconds). Where values come from and how they are checked: `config_sources`.
"""

# No `from __future__ import annotations` here: each field's type is looked at when the daemon
# starts, and texts would have to be compiled and evaluated for that, one by one.

from typing import Annotated, Final

import msgspec

from broker.advertised import advertised_address
from broker.config_groups import GroupsConfig
from broker.config_topics import TopicsConfig
from broker.config_units import count, duration, size, text
from broker.storage.storage_options import StorageOptions
from protocol import limits
from protocol.errors import ConfigError

__all__ = [
    "CleanerConfig",
    "Config",
    "DaemonConfig",
    "FlushConfig",
    "GroupsConfig",
    "HttpConfig",
    "LimitsConfig",
    "ListenersConfig",
    "LogOutputConfig",
    "StorageConfig",
    "TopicsConfig",
    "contradictions",
]

MIB: Final = 1024 * 1024
PORT_MAX: Final = 65_535
_ENGINE: Final = StorageOptions()


class DaemonConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The process: who it is, how it starts and how it ends."""

    node_id: Annotated[int, count(ge=0, le=limits.INT32_MAX)] = 1
    """The number of this broker, written into each data directory's `meta.properties`.
    A directory of another node is refused."""
    shutdown_timeout_ms: Annotated[int, duration(ge=0)] = 30_000
    """How long SIGTERM may drain: answer what is in flight, flush, checkpoint. After that, or at
    a second signal, the process ends at once with exit code 5; nothing acknowledged is lost."""
    ready_file: str = ""
    """A file that is written (as JSON, with the bound addresses) once clients are served, and
    removed at shutdown. Empty: none."""
    allow_missing_dirs: tuple[str, ...] = ()
    """Data directories that may be missing at start. Their partitions answer
    KAFKA_STORAGE_ERROR (56), never "empty". Any other missing directory is refused."""


class ListenersConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients connect."""

    host: str = "localhost"
    """Address or name to listen on, IPv4 and IPv6 alike: "localhost" is 127.0.0.1 and ::1,
    "*" is every interface. There is no authentication yet: open it to networks you trust."""
    native_port: Annotated[int, count(ge=0, le=PORT_MAX)] = 9091
    """TCP port of the native protocol; 0 takes any free one."""
    kafka_enabled: bool = True
    """Whether the Kafka protocol is spoken."""
    kafka_port: Annotated[int, count(ge=0, le=PORT_MAX)] = 9092
    """TCP port of the Kafka protocol; 0 takes any free one."""
    kafka_advertised: str = ""
    """What Kafka clients are told to connect to: `host:port`, or a host alone. Empty: `host`, and
    where that is every interface, this machine's name."""


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics and health over HTTP."""

    enabled: bool = True
    """Whether /metrics, /healthz, /readyz and /v1/topics/TOPIC/segments are served."""
    host: str = "localhost"
    """Address or name to listen on; as `listeners.host`."""
    port: Annotated[int, count(ge=0, le=PORT_MAX)] = 9644
    """TCP port; 0 takes any free one."""
    metric_topics_max: Annotated[int, count(ge=1, le=100_000)] = 500
    """Topics with metrics of their own; further ones are summed under the label `_other`."""
    metric_partitions_max: Annotated[int, count(ge=0, le=1_000_000)] = 5_000
    """Partitions with gauges of their own; further ones have none. Bounds the size of a scrape."""


class StorageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The data directories."""

    data_dirs: tuple[str, ...] = ("./tidelog-data",)
    """Directories, best one a disk; new partitions go to the one with the fewest. The first also
    holds the list of topics. Relative paths start at the working directory. One that is missing is
    made, if its parent is there."""
    open_files_max: Annotated[int, count(ge=16, le=10_000_000)] = _ENGINE.open_files_max
    """Segment files held open per directory; the least recently used are closed. Files with
    unflushed bytes stay open and may exceed it."""
    mapped_files_max: Annotated[int, count(ge=0, le=1_000_000)] = _ENGINE.mapped_files_max
    """Sealed segment files per directory that are mapped into memory for sending; 0 reads them
    instead."""
    index_cache_bytes: Annotated[int, size(ge=0)] = _ENGINE.index_cache_bytes
    """Memory for the indexes of sealed segments."""
    disk_reserve_bytes: Annotated[int, size(ge=0)] = _ENGINE.disk_reserve_bytes
    """Free space that producing may not use up, in each data directory; at most a tenth of its
    file system. Below it, producing is refused with KAFKA_STORAGE_ERROR (56), which clients try
    again, until a quarter of it more is free; fetching and deleting go on. 0: no reserve."""
    scrub_bytes_per_second: Annotated[int, size(ge=0)] = 8 * MIB
    """How much of all logs is read each second, in a process of its own, to find damage before
    somebody needs the data. 0 looks for none."""
    retention_check_ms: Annotated[int, duration(ge=100)] = _ENGINE.retention_check_ms
    """How often old segments are looked for."""
    producer_id_expiration_ms: Annotated[int, duration(ge=1_000)] = (
        _ENGINE.producer_id_expiration_ms
    )
    """An idempotent producer that a partition did not hear from for so long is forgotten there:
    a repetition of its last batches is not recognized any more. One with an open transaction is
    kept."""
    producers_per_partition_max: Annotated[int, count(ge=10, le=1_000_000)] = (
        _ENGINE.producers_per_partition_max
    )
    """Idempotent producers that a partition remembers, some 500 bytes each; for a further one,
    those that are idle longest are forgotten. If all have transactions open, it is refused with
    THROTTLING_QUOTA_EXCEEDED (89), which clients try again."""
    producers_max: Annotated[int, count(ge=100)] = _ENGINE.producers_max
    """Idempotent producers that all partitions remember together; for a further one, the partition
    that remembers most forgets half of those that are idle there."""
    checkpoint_interval_ms: Annotated[int, duration(ge=10)] = _ENGINE.checkpoint_interval_ms
    """How often recovery points are written down. Shorter: less to check after a crash."""
    unflushed_bytes_max: Annotated[int, size(ge=MIB)] = _ENGINE.unflushed_bytes_max
    """With more than this unflushed a partition is flushed under every policy; it bounds what has
    to be checked after a crash."""


class FlushConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How bytes get to the disk. When they do is a topic's `flush_policy`."""

    in_kernel: bool = True
    """Whether files are synced by the kernel's own workers (Linux AIO) where it offers them: a
    commit then takes two thirds of the time and half the CPU. Without it, by `threads`."""
    threads: Annotated[int, count(ge=1, le=64)] = 8
    """Threads that sit in fdatasync, for what `in_kernel` does not do; more help when many
    partitions are written at once."""


class CleanerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Compaction of the topics whose `cleanup_policy` has `compact`, in a process of its own."""

    enabled: bool = True
    """Whether logs are compacted. Without it those topics only grow."""
    dedupe_buffer_bytes: Annotated[int, size(ge=1_024)] = 128 * MIB
    """Memory for the keys of one pass, 27 bytes each; what does not fit takes another pass."""
    io_bytes_per_second: Annotated[int, size(ge=0)] = 64 * MIB
    """What it reads and writes at most, together; 0 is no limit."""
    backoff_ms: Annotated[int, duration(ge=100)] = 15_000
    """How long it waits when nothing is to be compacted. A log that cannot be is tried again
    after twice this time, then after four times, up to an hour."""


class LimitsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a client may ask for. Beyond a rate or an amount in flight, reading is paused;
    beyond a size, the request or the connection is refused."""

    frame_bytes_max: Annotated[int, size(ge=1_024, le=limits.INT32_MAX)] = limits.FRAME_BYTES_MAX
    """The largest request; a longer one closes its connection before it is buffered."""
    connections_max: Annotated[int, count(ge=1, le=1_000_000)] = 10_000
    """Client connections in all; further ones are closed at once."""
    connections_per_address_max: Annotated[int, count(ge=1, le=1_000_000)] = 2_000
    """Client connections from one address; further ones are closed at once."""
    requests_in_flight_max: Annotated[int, count(ge=1, le=1_000_000)] = 1_000
    """Unanswered requests of one connection; at this number reading from it pauses."""
    in_flight_bytes_max: Annotated[int, size(ge=MIB)] = 512 * MIB
    """Memory for requests that are being received, over all connections; beyond it, reading
    pauses."""
    write_buffer_bytes_max: Annotated[int, size(ge=64 * 1024)] = 4 * MIB
    """Answers that one client has been sent and does not take; beyond it, its requests wait."""
    idle_timeout_ms: Annotated[int, duration(ge=100)] = 600_000
    """A connection is closed whose client has asked for nothing so long, waits for nothing, and has
    taken nothing of what was answered."""
    frame_timeout_ms: Annotated[int, duration(ge=100)] = 30_000
    """A request that has begun to arrive must be whole by then; large ones get more time, by
    their size."""
    requests_per_second_max: Annotated[int, count(ge=0, le=10_000_000)] = 0
    """Requests a second from one client address, on average; beyond it, reading pauses.
    0 is no limit."""
    request_entries_max: Annotated[int, count(ge=1, le=limits.INT16_MAX)] = (
        limits.REQUEST_ENTRIES_MAX
    )
    """Entries of one MULTIFETCH, MULTIPRODUCE or DELETE_RECORDS, names of one TOPICS; one with
    more is refused."""
    decompressed_bytes_max: Annotated[int, size(ge=1_024)] = limits.DECOMPRESSED_BYTES_MAX
    """What one batch may grow to where the broker has to decompress it."""
    topics_max: Annotated[int, count(ge=1, le=limits.TOPICS_MAX)] = 10_000
    """Topics of this broker."""
    partitions_per_topic_max: Annotated[int, count(ge=1, le=limits.PARTITIONS_PER_TOPIC_MAX)] = (
        1_000
    )
    """Partitions of one topic."""
    fetch_response_bytes_max: Annotated[int, size(ge=1_024, le=limits.INT32_MAX)] = (
        limits.RESPONSE_BYTES_MAX
    )
    """A fetch is cut to this, whatever it asks for; a first larger message is sent whole."""
    max_wait_ms_max: Annotated[int, duration(ge=0, le=limits.INT32_MAX)] = 60_000
    """The longest a fetch may wait for new messages, whatever it asks for."""


class LogOutputConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon says, on standard error."""

    level: Annotated[str, text("debug", "info", "warning", "error")] = "info"
    """The least important event that is written."""
    format: Annotated[str, text("auto", "json", "console")] = "auto"
    """One event a line as JSON, or coloured for people; auto: console on a terminal, else JSON."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything; without arguments, the defaults."""

    daemon: DaemonConfig = DaemonConfig()
    listeners: ListenersConfig = ListenersConfig()
    http: HttpConfig = HttpConfig()
    storage: StorageConfig = StorageConfig()
    topics: TopicsConfig = TopicsConfig()
    flush: FlushConfig = FlushConfig()
    cleaner: CleanerConfig = CleanerConfig()
    groups: GroupsConfig = GroupsConfig()
    limits: LimitsConfig = LimitsConfig()
    log: LogOutputConfig = LogOutputConfig()


def contradictions(config: Config) -> list[tuple[str, str]]:
    """Return (key path, what is wrong and how to mend it) for values that cannot stand together."""
    found: list[tuple[str, str]] = []
    storage, bounds, topics = config.storage, config.limits, config.topics
    if not storage.data_dirs or "" in storage.data_dirs:
        found.append(("storage.data_dirs", "name at least one directory, and no empty name"))
    if len(set(storage.data_dirs)) != len(storage.data_dirs):
        found.append(("storage.data_dirs", "name each directory once"))
    for path in config.daemon.allow_missing_dirs:
        if path not in storage.data_dirs:
            problem = f"{path!r} is not in storage.data_dirs; add it there or remove it here"
            found.append(("daemon.allow_missing_dirs", problem))
    for path, host in (("listeners.host", config.listeners.host), ("http.host", config.http.host)):
        if not host.strip():  # an unset variable must not open the broker to everybody
            found.append((path, 'is empty: name an address, or say "*" for every interface'))
    found += _shared_ports(config)
    try:
        advertised_address(config.listeners.kafka_advertised, config.listeners.host, 1)
    except ConfigError as error:
        found.append((error.path, error.problem))
    if bounds.in_flight_bytes_max < bounds.frame_bytes_max:
        problem = "must not be below limits.frame_bytes_max, or the largest request never fits"
        found.append(("limits.in_flight_bytes_max", problem))
    if topics.max_message_bytes > bounds.frame_bytes_max:
        problem = "must not be above limits.frame_bytes_max, or such a message cannot be sent"
        found.append(("topics.max_message_bytes", problem))
    if topics.min_compaction_lag_ms > topics.max_compaction_lag_ms:
        problem = "must not be above topics.max_compaction_lag_ms"
        found.append(("topics.min_compaction_lag_ms", problem))
    groups = config.groups
    if groups.min_session_timeout_ms > groups.max_session_timeout_ms:
        problem = "must not be above groups.max_session_timeout_ms"
        found.append(("groups.min_session_timeout_ms", problem))
    if groups.offsets_topic_partitions > bounds.partitions_per_topic_max:
        problem = "must not be above limits.partitions_per_topic_max"
        found.append(("groups.offsets_topic_partitions", problem))
    if topics.default_partitions > bounds.partitions_per_topic_max:
        problem = "must not be above limits.partitions_per_topic_max"
        found.append(("topics.default_partitions", problem))
    return found


def _shared_ports(config: Config) -> list[tuple[str, str]]:
    """Return the ports that two listeners would share, if both are on."""
    listeners, http = config.listeners, config.http
    ports = {"listeners.native_port": listeners.native_port}
    if listeners.kafka_enabled:
        ports["listeners.kafka_port"] = listeners.kafka_port
    if http.enabled:
        ports["http.port"] = http.port
    found: list[tuple[str, str]] = []
    taken: dict[int, str] = {}
    for path, port in ports.items():
        if port and port in taken:
            found.append((path, f"port {port} is {taken[port]} already; choose another"))
        taken.setdefault(port, path)
    return found
