"""pandas is nobody's dependency: Spark's helpers that ask for it are kept out by not having it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_given_the_development_environment_when_looked_at_then_pandas_is_not_in_it() -> None:
    assert importlib.util.find_spec("pandas") is None, (
        "with pandas installed no test would see that something has come to need it"
    )


def test_given_the_dependencies_when_looked_at_then_pandas_is_none_of_them() -> None:
    assert not re.search(r'"pandas\b', (ROOT / "pyproject.toml").read_text())
