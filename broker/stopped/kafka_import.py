"""KafkaImport: takes the topics of stopped Apache Kafka directories into one of ours.

    plan_import     what would be taken, what is left out and why; changes nothing
    check_import    every file of what would be taken, as `verify` checks it
    carry_out       copies (or links), then lets the target know

A crash at any point leaves the target as it was, or with whole partitions more: everything is
copied and synced under names that no broker loads, then renamed, the directory synced, and the
topics with their settings entered into the registry; a start in between adopts them with settings
that delete nothing. The source is only read. The target's clean-shutdown marker goes, so that its
next start walks what was brought.
"""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from broker.kafka_topics import DIRECTORY as CLUSTER_METADATA
from broker.kafka_topics import kafka_topics, settings_to_adopt
from broker.stopped.findings import FileFinding
from broker.stopped.running import refuse_running
from broker.stopped.verification import partition_directories, verify_directory
from broker.storage.checkpoint import read_offset_checkpoint
from broker.storage.disk import replace_file
from broker.storage.os_disk import DIRECTORY_MODE, FILE_MODE, OsDisk
from broker.topic_registry import FILE_NAME as REGISTRY_FILE
from broker.topic_registry import TopicEntry, TopicRegistry
from protocol.errors import DataDirectoryError, StoredFormatError, TidelogError
from protocol.identifiers import TopicPartition
from protocol.stored import file_names, partition_metadata
from protocol.stored.checkpoint import offset_checkpoint_decode, offset_checkpoint_encode
from protocol.stored.file_names import DirectoryState, parse_directory_name, parse_file_name

OnBytes = Callable[[int], None]

UNFINISHED_PREFIX: Final = ".importing-"
"""Of a directory that is being filled; no name of a partition begins like this."""
COPY_BYTES: Final = 8 * 1024 * 1024
SIDE_FILES: Final = (file_names.PARTITION_METADATA, file_names.LEADER_EPOCH_CHECKPOINT)
JUNK_STATES: Final = (file_names.DELETED_SUFFIX, file_names.CLEANED_SUFFIX)

NOT_OURS: Final = {
    "__cluster_metadata": "the log of Kafka's controller; topics' settings were read from it",
    "__transaction_state": "the state of Kafka's transaction coordinator",
    "__share_group_state": "the state of Kafka's share groups",
    "__remote_log_metadata": "where Kafka keeps tiered segments",
}
STATE_REASONS: Final = {
    DirectoryState.DELETE: "its topic was deleted",
    DirectoryState.FUTURE: "Kafka was moving it here from another directory",
    DirectoryState.STRAY: "Kafka found that it does not belong to that broker",
}


class LeftOut(NamedTuple):
    """What of a source is not taken."""

    path: Path
    reason: str


class PartitionToImport(NamedTuple):
    """One partition's directory in a source."""

    path: Path
    topic_partition: TopicPartition
    topic_id: UUID | None
    log_start_offset: int
    cleaned_offset: int
    """Below it offsets may be missing: Kafka's cleaner took them."""
    files: tuple[str, ...]
    size_bytes: int
    """Of the files."""


class TopicToImport(NamedTuple):
    """A topic with the partitions that the sources hold of it."""

    entry: TopicEntry
    partitions: tuple[PartitionToImport, ...]
    are_settings_known: bool

    @property
    def missing(self) -> list[int]:
        """Partitions that no source holds; they will be empty."""
        held = {each.topic_partition.partition for each in self.partitions}
        return [number for number in range(self.entry.partition_count) if number not in held]


class ImportPlan(NamedTuple):
    """What an import would do."""

    target: Path
    topics: tuple[TopicToImport, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def partitions(self) -> list[PartitionToImport]:
        """All partitions."""
        return [partition for topic in self.topics for partition in topic.partitions]

    @property
    def size_bytes(self) -> int:
        """Bytes to be copied or linked, and to be checked before."""
        return sum(each.size_bytes for each in self.partitions)


def plan_import(
    sources: Sequence[Path], target: Path, *, topics: Collection[str] = ()
) -> ImportPlan:
    """Look at the sources and the target; change nothing.

    Args:
        sources: All data directories of one stopped Kafka broker, or some.
        target: A data directory of ours, the first one of its broker; made when it is not there.
        topics: Only these; all without any.

    Raises:
        DataDirectoryError: a source or the target is in use, is no data directory, or both hold a
            topic of the same name.
    """
    for source in sources:
        refuse_running(source)
    if target.exists():
        refuse_running(target)
    found: dict[str, list[PartitionToImport]] = defaultdict(list)
    left_out: list[LeftOut] = []
    for source in sources:
        if source.resolve() == target.resolve():
            raise DataDirectoryError(
                f"{source} is the target itself; a broker can be started on it as it is"
            )
        for partition in _partitions(source, topics, left_out):
            found[partition.topic_partition.topic].append(partition)
    unknown = sorted(set(topics) - found.keys())
    if unknown:
        raise DataDirectoryError(f"no source holds a partition of topic {', '.join(unknown)}")
    known = kafka_topics(OsDisk(), sources)
    planned = []
    for name, partitions in sorted(found.items()):
        topic_id = _topic_id(name, partitions, known[name].topic_id if name in known else None)
        count = 1 + max(each.topic_partition.partition for each in partitions)
        settings, lost = settings_to_adopt(known.get(name))
        left_out += [LeftOut(partitions[0].path, f"setting {sentence}") for sentence in lost]
        entry = TopicEntry(name, topic_id, count, settings)
        planned.append(TopicToImport(entry, tuple(partitions), name in known))
    _refuse_conflicts(target, planned)
    return ImportPlan(target, tuple(planned), tuple(left_out))


def check_import(
    plan: ImportPlan, *, on_bytes: OnBytes = lambda size: None
) -> Iterator[FileFinding]:
    """Yield a finding for each file of what would be taken.

    Raises: as `verify_directory`.
    """
    for partition in plan.partitions:
        yield from verify_directory(partition.path, on_bytes=on_bytes)


def carry_out(plan: ImportPlan, *, link: bool, on_bytes: OnBytes = lambda size: None) -> None:
    """Do it.

    Args:
        link: Link segments that will not change any more instead of copying them: no space is
            taken, and nobody may work on the source afterwards.

    Raises:
        DataDirectoryError: the target has changed meanwhile, or is in use.
        OSError: the disk refused; what was begun is removed at the next try.
    """
    target, disk = plan.target, OsDisk()
    if not target.exists():
        disk.make_directory(target)
    refuse_running(target)
    for leftover in target.glob(UNFINISHED_PREFIX + "*"):
        shutil.rmtree(leftover)
    for partition in plan.partitions:
        _bring(disk, partition, target, link=link, on_bytes=on_bytes)
    _note_offsets(disk, plan)
    marker = target / file_names.CLEAN_SHUTDOWN_MARKER
    if marker.exists():
        disk.unlink(marker)
    disk.sync_directory(target)
    for partition in plan.partitions:
        name = file_names.directory_name(partition.topic_partition)
        disk.rename(target / (UNFINISHED_PREFIX + name), target / name)
    disk.sync_directory(target)
    registry = TopicRegistry.open(target / REGISTRY_FILE)
    try:
        for topic in plan.topics:
            registry.create(topic.entry)
    finally:
        registry.close()


# --- looking --------------------------------------------------------------------------------------


def _partitions(
    source: Path, topics: Collection[str], left_out: list[LeftOut]
) -> Iterator[PartitionToImport]:
    """Yield the partitions of a source to be taken; note what is not."""
    partition_directories(source)  # refuses what is no data directory
    log_starts = read_offset_checkpoint(OsDisk(), source / file_names.LOG_START_CHECKPOINT)
    cleaned = _cleaned_offsets(source)
    for path in sorted(source.iterdir()):
        if not path.is_dir():
            continue
        parsed = parse_directory_name(path.name)
        if parsed is None:
            if path.name != "lost+found":
                left_out.append(LeftOut(path, "not a partition's directory"))
            continue
        topic = parsed.topic_partition.topic
        reason = STATE_REASONS.get(parsed.state) or NOT_OURS.get(topic)
        if reason is None and topics and topic not in topics:
            reason = "not asked for"
        if reason is not None:
            left_out.append(LeftOut(path, reason))
            continue
        yield _partition(path, parsed.topic_partition, log_starts, cleaned, left_out)


def _cleaned_offsets(source: Path) -> dict[TopicPartition, int] | None:
    """Return up to where Kafka has cleaned each log; None: its checkpoint is missing, or wrong."""
    try:
        return offset_checkpoint_decode((source / file_names.CLEANER_CHECKPOINT).read_bytes())
    except (FileNotFoundError, StoredFormatError):
        return None


def _partition(
    path: Path,
    topic_partition: TopicPartition,
    log_starts: dict[TopicPartition, int],
    cleaned: dict[TopicPartition, int] | None,
    left_out: list[LeftOut],
) -> PartitionToImport:
    files, size_bytes = [], 0
    for file in sorted(path.iterdir()):
        parsed = parse_file_name(file.name)
        if file.name in SIDE_FILES or (parsed is not None and parsed.state not in JUNK_STATES):
            files.append(file.name)
            size_bytes += file.stat().st_size
        else:
            left_out.append(LeftOut(file, "a leftover, or none of a partition's files"))
    logs = _logs(files)
    if cleaned is None and logs:  # then what is missing between segments passes for cleaned
        cleaned = {topic_partition: int(Path(logs[-1]).stem)}
    return PartitionToImport(
        path,
        topic_partition,
        _stored_topic_id(path),
        log_starts.get(topic_partition, 0),
        (cleaned or {}).get(topic_partition, 0),
        tuple(files),
        size_bytes,
    )


def _stored_topic_id(path: Path) -> UUID | None:
    try:
        return partition_metadata.decode((path / file_names.PARTITION_METADATA).read_bytes())
    except (FileNotFoundError, TidelogError):
        return None  # Kafka before 2.8 had none


def _topic_id(name: str, partitions: list[PartitionToImport], known: UUID | None) -> UUID:
    ids = {each.topic_id for each in partitions if each.topic_id is not None}
    if len(ids) > 1:
        raise DataDirectoryError(
            f"the partitions of topic {name} belong to topics with different ids: "
            f"{', '.join(sorted(map(str, ids)))}; remove those of the deleted one"
        )
    return next(iter(ids), known or uuid4())


def _refuse_conflicts(target: Path, planned: Sequence[TopicToImport]) -> None:
    if not target.exists():
        return
    names = {
        parsed.topic_partition.topic
        for path in target.iterdir()
        if (parsed := parse_directory_name(path.name)) and parsed.state is DirectoryState.CURRENT
    }
    if (target / REGISTRY_FILE).exists():
        registry = TopicRegistry.open(target / REGISTRY_FILE)
        try:
            names |= {entry.name for entry in registry.topics()}
        finally:
            registry.close()
    twice = sorted(names & {topic.entry.name for topic in planned})
    if twice:
        raise DataDirectoryError(
            f"{target} already has the topic{'s' if len(twice) > 1 else ''} {', '.join(twice)}: "
            "leave out what is there, or delete it there"
        )


# --- bringing -------------------------------------------------------------------------------------


def _bring(
    disk: OsDisk, partition: PartitionToImport, target: Path, *, link: bool, on_bytes: OnBytes
) -> None:
    """Fill a directory that no broker loads yet, durably."""
    name = UNFINISHED_PREFIX + file_names.directory_name(partition.topic_partition)
    directory = target / name
    directory.mkdir(mode=DIRECTORY_MODE)
    linkable = set(_logs(partition.files)[:-1]) if link else set()
    for file in partition.files:
        source, copy = partition.path / file, directory / file
        if file in linkable:
            try:
                os.link(source, copy)
            except OSError as error:
                reason = f"cannot link {source} to {target} ({error.strerror}): copy instead"
                raise OSError(error.errno, reason) from error
            on_bytes(source.stat().st_size)
        else:
            _copy(source, copy, on_bytes)
    disk.sync_directory(directory)


def _logs(files: Sequence[str]) -> list[str]:
    """The segments, oldest first. Nobody appends to any but the last."""
    return sorted(
        file for file in files if file.endswith(file_names.LOG_SUFFIX) and parse_file_name(file)
    )


def _copy(source: Path, copy: Path, on_bytes: OnBytes) -> None:
    descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with source.open("rb") as reader, os.fdopen(descriptor, "wb") as writer:
        while piece := reader.read(COPY_BYTES):
            writer.write(piece)
            on_bytes(len(piece))
        writer.flush()
        os.fsync(writer.fileno())
    status = source.stat()  # a segment without timestamps ages by its file's time (R20)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def _note_offsets(disk: OsDisk, plan: ImportPlan) -> None:
    """Add what the sources know of deleted and of cleaned records to the target's checkpoints."""
    starts = {each.topic_partition: each.log_start_offset for each in plan.partitions}
    cleaned = {each.topic_partition: each.cleaned_offset for each in plan.partitions}
    for name, offsets in (
        (file_names.LOG_START_CHECKPOINT, starts),
        (file_names.CLEANER_CHECKPOINT, cleaned),
    ):
        path = plan.target / name
        news = {each: offset for each, offset in offsets.items() if offset}
        if news:
            known = read_offset_checkpoint(disk, path)
            replace_file(disk, path, offset_checkpoint_encode(known | news))


assert CLUSTER_METADATA.rpartition("-")[0] in NOT_OURS
