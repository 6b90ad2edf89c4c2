"""What an installation takes from the tree, and what it leaves for a quick start."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
from pathlib import Path

import pytest

from broker.version import version

ROOT = Path(__file__).resolve().parents[2]


def test_given_the_installed_distribution_when_asked_then_its_version_is_that_of_the_code() -> None:
    assert importlib.metadata.version("tidelog") == version()


@pytest.mark.parametrize("target", ["install", "serve", "demo", "test", "bench"])
def test_given_a_target_that_runs_tidelog_when_made_then_bytecode_is_there_before(
    target: str,
) -> None:
    """Where PYTHONDONTWRITEBYTECODE is set nobody else makes it, and every start compiles."""
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    compiled = planned.index("compileall -q protocol broker tidelog")
    run = re.search(r"^\S+bin/(?:tidelog|python -m (?:tidelog|pytest|bench))\b", planned, re.M)
    assert run is None if target == "install" else compiled < run.start()
