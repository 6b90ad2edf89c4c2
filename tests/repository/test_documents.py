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


def test_given_the_decisions_when_listed_then_none_is_left_out():
    pages = sorted(path.name for path in (ROOT / "docs" / "adr").glob("0*.md"))
    listed = re.findall(r"\]\((0[\w-]+\.md)\)", (ROOT / "docs" / "adr" / "README.md").read_text())

    assert listed == pages
    assert len(pages) >= 11
