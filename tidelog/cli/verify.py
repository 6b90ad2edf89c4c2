"""`tidelog verify`: checks the files of a stopped broker, byte for byte."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tidelog.cli import output
from tidelog.cli.errors import CommandError, ExitCode, explained
from tidelog.cli.repair import repair as mend

if TYPE_CHECKING:
    from broker.offline import FileFinding


DirectoriesArgument: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        help="Data directories, or directories of single partitions.",
        show_default=False,
    ),
]

RecordsOption: TypeAlias = Annotated[
    bool, typer.Option("--records", help="Also decode every record; takes far longer.")
]

AllOption: TypeAlias = Annotated[
    bool, typer.Option("--all", help="Name the files without problems, too.")
]

ProgressOption: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--progress/--quiet",
        help="Show a progress bar, or none. Without either there is one on a terminal.",
        show_default=False,
    ),
]

JsonLinesOption: TypeAlias = Annotated[
    bool,
    typer.Option("--json", help="Write an object for every file, or every repair, one a line."),
]

RepairOption: TypeAlias = Annotated[
    bool, typer.Option("--repair", help="Say what can be done about it, ask, and do it.")
]

YesOption: TypeAlias = Annotated[
    bool, typer.Option("--yes", help="With --repair: do it without asking.")
]


def verify(
    directories: DirectoriesArgument,
    *,
    records: RecordsOption = False,
    every_file: AllOption = False,
    progress: ProgressOption = None,
    as_json: JsonLinesOption = False,
    repair: RepairOption = False,
    yes: YesOption = False,
) -> None:
    """Check the files of a stopped broker: every CRC, every offset, every index.

    Nothing is changed without --repair. An "error" is damage; a "warning" is something that the
    next start mends, such as a torn tail after a crash or an index that does not fit its log; a
    "note" is nothing to worry about. Exit code 0: clean, notes aside; 1: errors or warnings were
    found; 2: something could not be read, or a broker is running on it.

    With --repair, damage is taken out of the logs: from the bad offset to the next valid one,
    bytes are removed, and kept in a .quarantine file; the offsets stay, without records. Indexes
    are built anew, and small files that cannot be read are removed where a start makes them. What
    would be done is shown first; without a yes, or with --json and no --yes, that is all. Exit
    code 1: it was not done, or something cannot be repaired.

    Examples:
      tidelog verify ./tidelog-data
      tidelog verify /data/logs-0 --records --json
      tidelog verify ./tidelog-data --repair
    """
    if yes and not repair:
        raise CommandError("--yes goes with --repair", ExitCode.USAGE)
    code = ExitCode.DONE
    for directory in directories:
        total = _Total()
        try:
            if repair:
                code = max(code, mend(directory, yes=yes, progress=progress, as_json=as_json))
                continue
            _verify(directory, records, progress, total, as_json=as_json, every_file=every_file)
        except Exception as error:
            known = explained(error)
            if known is None or isinstance(error, BrokenPipeError):
                raise
            output.say(known[0])
            code = ExitCode.USAGE
            continue
        if not as_json:
            total.tell(directory)
        if total.has_findings and code is ExitCode.DONE:
            code = ExitCode.FAILED
    raise typer.Exit(code)


@dataclasses.dataclass(slots=True)
class _Total:
    """What was found in one directory."""

    files: int = 0
    records: int = 0
    size_bytes: int = 0
    problems: dict[str, int] = dataclasses.field(default_factory=dict)

    def add(self, finding: FileFinding) -> None:
        self.files += 1
        self.records += finding.record_count
        self.size_bytes += finding.size_bytes
        for problem in finding.problems:
            self.problems[problem.severity] = self.problems.get(problem.severity, 0) + 1

    @property
    def has_findings(self) -> bool:
        return bool(self.problems.keys() - {"note"})

    def tell(self, directory: Path) -> None:
        """Write the last line about a directory, and where to go on from there."""
        output.write_line(f"{directory}: {self.sentence()}")
        if self.problems.get("error"):
            output.say(f"what can be done about it: tidelog verify {directory} --repair")

    def sentence(self) -> str:
        found = ", ".join(
            f"{self.problems[name]} {name}{'s' if self.problems[name] > 1 else ''}"
            for name in ("error", "warning", "note")
            if name in self.problems
        )
        return (
            f"{self.files:,} files, {self.records:,} records, "
            f"{output.size_text(self.size_bytes)}: {found or 'clean'}"
        )


def _verify(
    directory: Path,
    records: bool,
    progress: bool | None,
    total: _Total,
    *,
    as_json: bool,
    every_file: bool,
) -> None:
    from broker.offline import log_bytes, verify_directory

    def show(finding: FileFinding) -> None:
        total.add(finding)
        if as_json:
            output.write_json(_value(finding))
        elif finding.problems or every_file:
            _write_finding(finding)

    size = log_bytes(directory)
    name = directory.resolve().name
    with output.progress_bar(name, size, is_shown=progress) as advance:
        for finding in verify_directory(directory, decode_records=records, on_bytes=advance):
            show(finding)


def _write_finding(finding: FileFinding) -> None:
    if not finding.problems:
        output.write_line(f"{finding.path}: {finding.kind}, {output.size_text(finding.size_bytes)}")
    for problem in finding.problems:
        where = "" if problem.position is None else f" at byte {problem.position}"
        offset = "" if problem.offset is None else f" (offset {problem.offset})"
        output.write_line(f"{finding.path}: {problem.severity}{where}{offset}: {problem.text}")


def _value(finding: FileFinding) -> dict[str, Any]:
    value = dataclasses.asdict(finding)
    value["path"] = str(finding.path)
    return value
