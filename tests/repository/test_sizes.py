"""Files of about 400 lines, functions of about 50: what does not fit is two things."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
PACKAGES = ("protocol", "broker", "tidelog", "bench")
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_given_the_packages_when_listed_then_there_is_something_to_hold() -> None:
    assert len(SOURCES) > 30
    assert len(TESTS) > 100


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_given_a_source_file_when_measured_then_it_and_its_functions_are_of_a_size(
    path: Path,
) -> None:
    text = path.read_text(encoding="utf-8")

    too_long = {
        function.name: lines
        for function in functions(ast.parse(text))
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    }

    assert text.count("\n") <= FILE_LINES_MAX
    assert too_long == {}


def test_given_the_tests_when_measured_then_no_file_is_longer_than_a_source_file() -> None:
    lines = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in TESTS
    }

    assert {path: count for path, count in lines.items() if count > FILE_LINES_MAX} == {}
