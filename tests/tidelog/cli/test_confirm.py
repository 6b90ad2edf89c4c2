"""A question that is asked before something is gone."""

import io

import pytest

from tidelog.cli import output


@pytest.mark.parametrize(
    ("given", "is_yes", "asked"),
    [
        ("y\n", True, "Sure? [y/N] "),
        ("Yes\n", True, "Sure? [y/N] "),
        ("\n", False, "Sure? [y/N] "),
        ("yet\n", False, "Sure? [y/N] "),
        ("", False, "Sure? [y/N] \n"),
    ],
)
def test_given_an_answer_when_asked_then_only_yes_is_a_yes_and_the_next_line_is_free(
    monkeypatch, capsys, given, is_yes, asked
):
    monkeypatch.setattr("sys.stdin", io.StringIO(given))

    assert output.confirm("Sure?") is is_yes
    assert capsys.readouterr().err == asked
