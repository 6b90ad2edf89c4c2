"""Tables, sizes, bars: for people on a terminal, for programs elsewhere."""

import os
import pty
import subprocess
import sys

import pytest

from tidelog.cli import output

TABLE = """
from tidelog.cli import output
output.write_table(("name", "count"), [("[bold]x", 1), ("y" * 30, None), ("z", 22)])
"""


def test_given_no_terminal_when_a_table_is_written_then_columns_are_aligned_and_whole(capsys):
    output.write_table(("name", "count"), [("x" * 200, 1), ("y", 22), ("z", None)])

    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "NAME".ljust(200) + "  COUNT"
    assert rows == [
        "x" * 200 + "      1",
        "y".ljust(200) + "     22",
        "z".ljust(200) + "      -",
    ]


def test_given_no_rows_when_a_table_is_written_then_its_columns_are_named(capsys):
    output.write_table(("name", "count"), [])

    assert capsys.readouterr().out == "NAME  COUNT\n"


def test_given_a_terminal_when_a_table_is_written_then_nothing_in_it_is_markup():
    terminal, standard_output = pty.openpty()

    subprocess.run([sys.executable, "-c", TABLE], stdout=standard_output, check=True, timeout=30)
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    os.close(standard_output)

    assert "[bold]x" in shown
    assert "y" * 30 in shown
    assert "22" in shown


@pytest.mark.parametrize(("width", "is_table"), [(80, True), (46, True), (44, False)])
def test_given_a_narrow_terminal_when_a_table_is_written_then_no_number_is_broken(width, is_table):
    program = (
        "from tidelog.cli import output; output.write_table(('name', 'count', 'bytes', 'text'), "
        "[('web', 1234567, 765432, 'word ' * 13)])"
    )
    terminal, standard_output = pty.openpty()
    environment = os.environ | {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}

    subprocess.run(
        [sys.executable, "-c", program], stdout=standard_output, env=environment, check=True
    )
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    os.close(standard_output)

    assert ("─" in shown) is is_table
    assert {"1234567", "765432"} <= set(shown.split())
    assert shown.split().count("word") == 13


def test_given_no_terminal_when_work_is_long_then_no_bar_is_shown(capsys):
    with output.progress_bar("work", 100) as advance:
        advance(50)

    assert capsys.readouterr().err == ""


def test_given_a_bar_that_is_asked_for_when_work_is_done_then_it_is_shown(capsys):
    with output.progress_bar("some [work]", 100, is_shown=True) as advance:
        advance(100)

    assert "some [work]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1_572_864, "1.5 MiB"),
        (1 << 30, "1.0 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_given_a_size_when_shown_then_it_is_short(size_bytes, text):
    assert output.size_text(size_bytes) == text
