"""docs/command-line.md against the commands: made from them, and true to what --help says."""

import re
from pathlib import Path

import pytest

from tests.support.command_line import call, run
from tidelog.cli import reference
from tidelog.cli.app import COMMANDS, paragraphs
from tidelog.cli.errors import ExitCode

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / reference.FILE).read_text()
NAMES = ["serve", "health", *COMMANDS]


def section(name):
    """Return what the document says of one command."""
    found = re.search(rf"^### `tidelog {name}\b.*?(?=^##|\Z)", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert found is not None, f"no section on {name}"
    return found[0]


def documented_options(name):
    cells = re.findall(r"^\| `(--[^`]+)`", section(name), re.MULTILINE)
    return {option for cell in cells for option in re.findall(r"--[a-z-]+", cell)}


def test_given_the_document_when_made_anew_then_it_is_the_same():
    assert reference.with_reference(DOCUMENT) == DOCUMENT, (
        "run: python -m tidelog.cli.reference --update ."
    )


@pytest.mark.parametrize("name", NAMES)
def test_given_a_command_when_asked_for_help_then_the_document_has_the_same_options(
    name, capfd, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "200")

    outcome = call(*name.split(), "--help")
    text = outcome.text + capfd.readouterr().out
    offered = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))

    in_examples = set(re.findall(r"--[a-z-]+", " ".join(re.findall("```.*?```", section(name)))))
    assert outcome.code == 0
    assert offered - in_examples - {"--help"} == documented_options(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_given_a_command_when_asked_for_help_then_its_examples_are_shown_whole(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    examples = [one for one in paragraphs(COMMANDS[name]) if one.startswith("Example")]

    shown = call(*name.split(), "--help").text

    assert len(examples) == 1
    for line in examples[0].splitlines()[1:]:
        assert line.strip().find(f"tidelog {name}") >= 0
        assert f"  {line.strip()} " in shown


def test_given_the_exit_codes_when_documented_then_all_are_there():
    table = DOCUMENT.partition("## Exit codes")[2].partition("## The daemon")[0]

    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}

    assert codes == set(ExitCode)


def test_given_the_command_when_asked_for_its_version_then_it_says_it():
    outcome = run("--version")

    assert outcome.code == 0
    assert re.fullmatch(r"tidelog \d+\.\d+\.\d+\n", outcome.text)
