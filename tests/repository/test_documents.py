"""The documents: what they link to is there, and the tests that they name are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md"]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")
NAMED_TEST = re.compile(r"`(tests/[\w/.-]+|\.\.\.)(?:::(\w+))?`")
"""As pytest has it; `...` is the file that was named last."""

of_each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT))
)


def named_tests(text: str) -> Iterator[tuple[str, str]]:
    last = ""
    for found in NAMED_TEST.finditer(text):
        last = last if found[1] == "..." else found[1]
        yield last, found[2] or ""


@of_each_document
def test_given_a_document_when_its_links_are_followed_then_there_is_something(document: Path):
    links = LINK.findall(document.read_text(encoding="utf-8"))

    assert [link for link in links if not (document.parent / link).exists()] == []


@of_each_document
def test_given_a_document_when_it_names_a_test_then_there_is_one(document: Path):
    wrong = []
    for path, name in named_tests(document.read_text(encoding="utf-8")):
        file = ROOT / path
        if not file.exists() or (name and f"def {name}(" not in file.read_text(encoding="utf-8")):
            wrong.append(f"{path}::{name}")

    assert wrong == []


def test_given_what_is_promised_when_read_then_each_row_names_the_test_that_shows_it():
    text = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8")
    rows, is_of_tests = [], False
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            if line.endswith("| test |"):
                is_of_tests = True
            elif is_of_tests:
                rows.append(line)
        elif not line.startswith("|"):
            is_of_tests = False

    assert len(rows) > 45
    assert [row for row in rows if not NAMED_TEST.search(row.rsplit(" | ", 1)[1])] == []


def test_given_the_decisions_when_listed_then_none_is_left_out():
    pages = sorted(path.name for path in (ROOT / "docs" / "adr").glob("0*.md"))
    listed = re.findall(r"\]\((0[\w-]+\.md)\)", (ROOT / "docs" / "adr" / "README.md").read_text())

    assert listed == pages
    assert len(pages) >= 11
