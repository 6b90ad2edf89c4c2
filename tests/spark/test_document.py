"""docs/spark.md against the code: its options, settings, columns and jobs."""

import re
from pathlib import Path

from tidelog.cli.app import COMMANDS
from tidelog.segments.batch_rows import BATCH_ROWS
from tidelog.spark.options import BATCHES_OPTIONS, BROKER_OPTIONS, SEGMENTS_OPTIONS
from tidelog.spark.schema import RECORD_TYPES
from tidelog.spark.session import SETTINGS
from tidelog.spark.sink_options import SINK_OPTIONS, SINK_TYPES

DOCUMENT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def section(heading):
    """Return what stands below a heading, down to the next of its rank."""
    rank = heading.split()[0]
    return DOCUMENT.partition(f"\n{heading}\n")[2].partition(f"\n{rank} ")[0]


def first_cells(text):
    """Return the names in backquotes in the first column of tables."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_given_the_options_when_documented_then_all_are_there_and_no_others():
    known = {*BROKER_OPTIONS, *SEGMENTS_OPTIONS, *BATCHES_OPTIONS}

    assert first_cells(section("### Options")) == known - {"broker", "path"}


def test_given_the_columns_when_documented_then_all_are_there():
    assert first_cells(DOCUMENT.partition("\n## ")[0]) == set(RECORD_TYPES)
    assert all(f"`{name}`" in section("## Sources") for name in BATCH_ROWS.names)


def test_given_the_sink_when_documented_then_its_columns_and_options_are_there():
    text = section("## Sink")

    for name in SINK_TYPES:
        assert f"`{name}`" in text
    for name in SINK_OPTIONS:
        assert f"`{name}`" in text or f'"{name}"' in text


def test_given_the_settings_when_documented_then_they_are_those_that_are_set():
    text = section("## The session")

    unexplained = {name for name, value in SETTINGS.items() if f"`{name}={value}`" not in text} - {
        "spark.ui.showConsoleProgress"
    }
    assert not unexplained


def test_given_the_jobs_when_documented_then_all_are_there():
    jobs = {name.removeprefix("spark ") for name in COMMANDS if name.startswith("spark ")}

    assert first_cells(section("## Jobs")) == jobs
