"""`tidelog verify --repair`: says what can be done about what was found, asks, and does it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.cli import output
from tidelog.cli.errors import ExitCode

if TYPE_CHECKING:
    from broker.offline import Repair, RepairPlan


def repair(directory: Path, *, yes: bool, progress: bool | None, as_json: bool) -> ExitCode:
    """Show the plan for one directory; carry it out if `yes`, or if the answer is yes.

    Returns:
        FAILED if something is left that was not repaired, or cannot be.

    Raises:
        TidelogError, OSError: the directory cannot be read or written, or is in use.
    """
    from broker.offline import log_bytes, plan_repairs

    size = log_bytes(directory)
    with output.progress_bar(directory.resolve().name, size, is_shown=progress) as advance:
        plan = plan_repairs(directory, on_bytes=advance)
    try:
        for text in (*plan.notes, *plan.hopeless):
            if not as_json:
                output.write_line(text)
        if not plan.repairs:
            if not as_json:
                output.write_line(f"{directory}: there is nothing to repair")
            return ExitCode.FAILED if plan.hopeless else ExitCode.DONE
        if not _is_wanted(plan, directory, yes=yes, as_json=as_json):
            return ExitCode.FAILED
        for each in plan.carry_out():
            _write(each, as_json=as_json, is_done=True)
    finally:
        plan.close()
    if not as_json:
        output.write_line(f"{directory}: {len(plan.repairs)} repaired")
    return ExitCode.FAILED if plan.hopeless else ExitCode.DONE


def _is_wanted(plan: RepairPlan, directory: Path, *, yes: bool, as_json: bool) -> bool:
    """Show what would be done, and whether it is to be done."""
    if yes:
        return True
    for each in plan.repairs:
        _write(each, as_json=as_json, is_done=False)
    if as_json:
        return False
    if not output.confirm(f"{directory}: carry out {len(plan.repairs)} of these?"):
        output.say("nothing was changed")
        return False
    return True


def _write(repair: Repair, *, as_json: bool, is_done: bool) -> None:
    if as_json:
        value = dataclasses.asdict(repair)
        output.write_json(value | {"path": str(repair.path), "is_done": is_done})
        return
    done = "done: " if is_done else ""
    output.write_line(f"{repair.path}: {repair.problem}: {done}{repair.action}")
