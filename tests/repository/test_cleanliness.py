"""What must never be committed: somebody's home directory, a package registry's address."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = re.compile(r"/(?:root|home/\w+)/|--(?:extra-)?index-url|registry *= *[\"']?https?://")


def tracked_files() -> list[Path]:
    """The files git tracks; in an unpacked archive without git, every text file of the tree."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        return [ROOT / name for name in listed.splitlines()]
    return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]


def test_given_every_file_when_searched_then_no_machine_or_registry_is_named() -> None:
    guilty = {}
    for path in tracked_files():
        if path == Path(__file__).resolve() or "data" in path.parts or not path.is_file():
            continue
        found = FORBIDDEN.findall(path.read_bytes().decode("utf-8", "replace"))
        if found:
            guilty[str(path.relative_to(ROOT))] = found

    assert guilty == {}
