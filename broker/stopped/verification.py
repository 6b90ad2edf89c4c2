"""Verification: every file of a stopped broker's directory, checked without changing one.

Of logs: that every batch and entry is whole with its CRC right, that offsets grow, start at the
file's name and end below the next file's, and, if asked, that every record decodes. Of indexes:
that they say what the log says. Of the small files: that they parse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from broker.stopped.findings import FileFinding, Problem, Severity
from broker.stopped.index_checks import OffsetIndexCheck, Problems, TimeIndexCheck
from broker.stopped.log_scan import LogScan, ScannedEntry
from broker.stopped.running import refuse_running
from broker.stopped.small_files import durable_offsets_of, offsets_in, small_file_finding
from broker.storage.quarantine import REPORT_SUFFIX, read_report
from protocol.errors import DataDirectoryError, TidelogError
from protocol.identifiers import Offset
from protocol.limits import SEGMENT_OFFSET_SPAN_MAX
from protocol.stored import file_names, partition_metadata
from protocol.stored.file_names import DirectoryState, SegmentFileName, parse_file_name

NOTHING_KNOWN: Final = -1

OnBytes = Callable[[int], None]


def verify_directory(
    directory: Path, *, decode_records: bool = False, on_bytes: OnBytes = lambda size: None
) -> Iterator[FileFinding]:
    """Check a data directory or one partition's directory; yield a finding for each file.

    Args:
        decode_records: Also decode every record (slower by far: Python looks at each).
        on_bytes: Told the bytes of log that were read, for progress; see `log_bytes`.

    Raises:
        DataDirectoryError: no such directory, no directory of a broker, or one in use.
        OSError: the disk cannot read it.
    """
    partitions = partition_directories(directory)
    is_partition = partitions == [directory]
    data_directory = directory.resolve().parent if is_partition else directory
    refuse_running(data_directory)
    return _verified(directory, partitions, data_directory, decode_records, on_bytes)


def partition_directories(directory: Path) -> list[Path]:
    """Return the partitions' directories in a data directory, or itself if it is one.

    Raises:
        DataDirectoryError: it is neither.
    """
    if not directory.is_dir():
        raise DataDirectoryError(f"{directory} is no directory")
    if any(_is_log(path) for path in directory.iterdir()):
        return [directory]
    found = [path for path in sorted(directory.iterdir()) if path.is_dir() and _is_partition(path)]
    if not found and not (directory / file_names.META_PROPERTIES).exists():
        raise DataDirectoryError(
            f"{directory} is neither a data directory (no {file_names.META_PROPERTIES}, no "
            "<topic>-<partition> in it) nor a partition's (no .log files)"
        )
    return found


def log_bytes(directory: Path) -> int:
    """Return the bytes that `verify_directory` will read of logs, for a progress bar."""
    return sum(
        path.stat().st_size
        for partition in partition_directories(directory)
        for path in partition.iterdir()
        if _is_log(path)
    )


def _verified(
    directory: Path,
    partitions: list[Path],
    data_directory: Path,
    decode_records: bool,
    on_bytes: OnBytes,
) -> Iterator[FileFinding]:
    if partitions != [directory]:
        for path in sorted(directory.iterdir()):
            if path.is_file() and (finding := small_file_finding(path)) is not None:
                yield finding
    durable = durable_offsets_of(data_directory)
    recovery_points = offsets_in(data_directory / file_names.RECOVERY_POINT_CHECKPOINT)
    for partition in partitions:
        promised = durable_offset_of(partition, durable)
        if promised == NOTHING_KNOWN:  # as a start does
            name = file_names.parse_directory_name(partition.resolve().name)
            if name is not None:
                promised = recovery_points.get(name.topic_partition, NOTHING_KNOWN)
        verification = _PartitionVerification(partition, promised, decode_records, on_bytes)
        yield from verification.findings()


class _PartitionVerification:
    """The files of one partition."""

    def __init__(
        self,
        directory: Path,
        durable_offset: int,
        decode_records: bool,
        on_bytes: OnBytes,
    ) -> None:
        self._directory, self._decode_records = directory, decode_records
        self._on_bytes = on_bytes
        self._paths = sorted(path for path in directory.iterdir() if path.is_file())
        self._durable_offset = durable_offset

    def findings(self) -> Iterator[FileFinding]:
        names = [(parse_file_name(path.name), path) for path in self._paths]
        logs = [(name.base_offset, path) for name, path in names if name and _is_current_log(name)]
        gaps: list[tuple[int, int]] = []
        for number, (base_offset, path) in enumerate(logs):
            is_last = number == len(logs) - 1
            next_base_offset = None if is_last else logs[number + 1][0]
            for finding in self._log_findings(path, base_offset, next_base_offset):
                yield finding
                if finding.kind == "log" and next_base_offset is not None:
                    gaps.append((_end(finding, base_offset), next_base_offset))
        bases = {base_offset for base_offset, _ in logs}
        yield from self._other_findings(names, bases, [each for each in gaps if each[0] < each[1]])

    def _other_findings(
        self,
        names: list[tuple[SegmentFileName | None, Path]],
        bases: set[Offset],
        gaps: list[tuple[int, int]],
    ) -> Iterator[FileFinding]:
        """Yield what is to be said of all files but logs and their indexes.

        Args:
            gaps: First and next offset of what no segment has; the cleaner may have left them.
        """
        for name, path in names:
            if path.name.endswith(REPORT_SUFFIX):
                finding: FileFinding | None = _report_finding(path, gaps)
            elif path.name.endswith(file_names.QUARANTINE_SUFFIX):
                finding = _note(path, "quarantine", "a copy of bytes that were bad, or cut off")
            elif name is None:
                finding = small_file_finding(path)
            elif name.state:
                finding = _note(path, "leftover", "a leftover that the next start removes or uses")
            elif name.suffix in _INDEX_SUFFIXES and name.base_offset not in bases:
                finding = _orphan_finding(path, name, gaps)
            elif name.suffix in (file_names.SNAPSHOT_SUFFIX, file_names.TRANSACTION_INDEX_SUFFIX):
                finding = small_file_finding(path)
            else:
                continue
            if finding is not None:
                yield finding

    def _log_findings(
        self, path: Path, base_offset: int, next_base_offset: int | None
    ) -> Iterator[FileFinding]:
        """Walk one log with its indexes beside it; yield the log's finding, then theirs."""
        log = _LogCheck(path, base_offset, next_base_offset, self._durable_offset)
        index_path = path.with_suffix(file_names.OFFSET_INDEX_SUFFIX)
        time_index_path = path.with_suffix(file_names.TIME_INDEX_SUFFIX)
        index = OffsetIndexCheck(index_path, base_offset) if index_path.exists() else None
        time_index = (
            TimeIndexCheck(time_index_path, base_offset) if time_index_path.exists() else None
        )
        with LogScan(path) as scan:
            for entry in scan.entries():
                log.entry(entry, decode_records=self._decode_records)
                if index is not None:
                    index.entry(entry)
                if time_index is not None:
                    time_index.entry(entry)
                self._on_bytes(entry.size_bytes)
            size_bytes = scan.size_bytes
        for other, check in ((index_path, index), (time_index_path, time_index)):
            if check is None:
                log.problems.add(Severity.WARNING, f"{other.name} is missing")
        yield log.finding(size_bytes)
        if index is not None:
            yield index.finding(size_bytes)
        if time_index is not None:
            yield time_index.finding()


class _LogCheck:
    """What one log file must hold."""

    def __init__(
        self, path: Path, base_offset: int, next_base_offset: int | None, durable_offset: int
    ) -> None:
        self._path, self._base_offset = path, base_offset
        self._next_base_offset, self._durable_offset = next_base_offset, durable_offset
        self._first_offset: int | None = None
        self._last_offset = base_offset - 1
        self._entries = self._records = 0
        self._bad_bytes: tuple[ScannedEntry, int] | None = None
        self.problems = Problems()

    def entry(self, entry: ScannedEntry, *, decode_records: bool) -> None:
        if entry.problem:
            self._bad(entry)
            return
        if self._bad_bytes is not None:  # what was bad is followed by what is good: no torn tail
            self._report_bad(is_tail=False)
        self._entries += 1
        self._check_offsets(entry)
        self._last_offset = max(self._last_offset, entry.last_offset)
        if self._first_offset is None:
            self._first_offset = entry.first_offset
        if decode_records or entry.record_count is None:
            self._decode(entry)
        else:
            self._records += entry.record_count

    def finding(self, size_bytes: int) -> FileFinding:
        if self._bad_bytes is not None:
            self._report_bad(is_tail=True)
        end_offset = self._last_offset + 1
        if self._next_base_offset is None and end_offset < self._durable_offset:
            text = f"offsets up to {self._durable_offset - 1} were durable and are not there"
            self.problems.add(Severity.ERROR, text, position=size_bytes, offset=end_offset)
        return FileFinding(
            path=self._path,
            kind="log",
            size_bytes=size_bytes,
            entry_count=self._entries,
            record_count=self._records,
            first_offset=self._first_offset,
            last_offset=self._last_offset if self._first_offset is not None else None,
            problems=self.problems.all(),
        )

    def _bad(self, entry: ScannedEntry) -> None:
        if self._bad_bytes is not None:
            self._report_bad(is_tail=False)
        self._bad_bytes = (entry, self._last_offset + 1)

    def _report_bad(self, *, is_tail: bool) -> None:
        """Report bytes that are wrong: a torn tail if they end the newest file and nothing that
        was durable is in them, else damage."""
        assert self._bad_bytes is not None
        (entry, offset), self._bad_bytes = self._bad_bytes, None
        torn = is_tail and self._next_base_offset is None and offset >= self._durable_offset
        what = "a torn tail, which the next start cuts" if torn else "damage"
        self.problems.add(
            Severity.WARNING if torn else Severity.ERROR,
            f"{what}: {entry.size_bytes} bytes: {entry.problem}",
            position=entry.position,
            offset=offset,
        )

    def _check_offsets(self, entry: ScannedEntry) -> None:
        first, last = entry.first_offset, entry.last_offset
        texts = []
        if first <= self._last_offset:
            texts.append(f"offset {first} comes after offset {self._last_offset}")
        if self._next_base_offset is not None and last >= self._next_base_offset:
            texts.append(f"offset {last} belongs to the next file ({self._next_base_offset})")
        if last - self._base_offset > SEGMENT_OFFSET_SPAN_MAX:
            texts.append(f"offset {last} is too far from the file's first ({self._base_offset})")
        for text in texts:
            self.problems.add(Severity.ERROR, text, position=entry.position, offset=first)

    def _decode(self, entry: ScannedEntry) -> None:
        count = 0
        try:
            for record in entry.records():
                if record.offset > entry.last_offset:
                    raise TidelogError(f"record {record.offset} is outside its batch")
                count += 1
        except TidelogError as error:
            text = f"records do not decode: {error}"
            self.problems.add(
                Severity.ERROR, text, position=entry.position, offset=entry.first_offset + count
            )
        self._records += count


def _end(log: FileFinding, base_offset: int) -> int:
    return base_offset if log.last_offset is None else log.last_offset + 1


def _orphan_finding(path: Path, name: SegmentFileName, gaps: list[tuple[int, int]]) -> FileFinding:
    """Return the finding of an index whose log is not there: in a gap, there was one."""
    for first, end in gaps:
        if first <= name.base_offset < end:
            text = f"its log is missing, with offsets {first} to {end - 1}"
            return _finding(path, name.suffix[1:], Problem(Severity.ERROR, text, offset=first))
    return _note(path, name.suffix[1:], "an index without a log")


def _report_finding(path: Path, gaps: list[tuple[int, int]]) -> FileFinding:
    """Return the finding of a report: what it says is missing may be missing still."""
    try:
        report = read_report(path.read_bytes())
    except msgspec.MsgspecError as error:
        return _note(path, "quarantine", f"a report that cannot be read: {error}")
    first, end = report.first_offset, report.next_offset
    if not report.size_bytes and (first, end) in gaps:
        text = f"offsets {first} to {end - 1} are missing, as a start has found"
        return _finding(path, "quarantine", Problem(Severity.ERROR, text, offset=first))
    return _note(path, "quarantine", f"a report of {report.cause}: {report.fault or 'no fault'}")


_INDEX_SUFFIXES: Final = (file_names.OFFSET_INDEX_SUFFIX, file_names.TIME_INDEX_SUFFIX)


def _is_log(path: Path) -> bool:
    name = parse_file_name(path.name)
    return name is not None and _is_current_log(name)


def _is_current_log(name: SegmentFileName) -> bool:
    return name.suffix == file_names.LOG_SUFFIX and not name.state


def _is_partition(path: Path) -> bool:
    name = file_names.parse_directory_name(path.name)
    return name is not None and name.state is DirectoryState.CURRENT


def durable_offset_of(directory: Path, durable: Mapping[tuple[bytes, int], int]) -> int:
    """Return the durable offset of a partition's directory, NOTHING_KNOWN if none is written."""
    name = file_names.parse_directory_name(directory.resolve().name)
    try:
        data = (directory / file_names.PARTITION_METADATA).read_bytes()
        topic_id = partition_metadata.decode(data)
    except (OSError, TidelogError):
        return NOTHING_KNOWN
    if name is None:
        return NOTHING_KNOWN
    return durable.get((topic_id.bytes, name.topic_partition.partition), NOTHING_KNOWN)


def _note(path: Path, kind: str, text: str) -> FileFinding:
    return _finding(path, kind, Problem(Severity.NOTE, text))


def _finding(path: Path, kind: str, problem: Problem) -> FileFinding:
    return FileFinding(
        path=path,
        kind=kind,
        size_bytes=path.stat().st_size,
        entry_count=0,
        record_count=0,
        first_offset=None,
        last_offset=None,
        problems=(problem,),
    )
