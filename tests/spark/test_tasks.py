"""Tasks: results in order, errors with their cause, progress on the way."""

from functools import partial
from pathlib import Path

import pytest

from tidelog.cli.spark_jobs import cause_of
from tidelog.segments.errors import DataLossError
from tidelog.spark.tasks import run_tasks


def square(directory, number):
    (Path(directory) / str(number)).touch()
    return number * number


def lost(number):
    raise DataLossError(f"offsets 0 to {number} are gone")


def test_given_items_when_worked_on_then_the_results_are_in_their_order(spark, tmp_path):
    told = []

    found = run_tasks(
        spark, partial(square, str(tmp_path)), range(5), lambda *done: told.append(done)
    )

    assert found == [0, 1, 4, 9, 16]
    assert len(list(tmp_path.iterdir())) == 5
    assert told[-1] == (5, 5)
    assert all(done <= 5 for done, _ in told)


def test_given_no_items_when_worked_on_then_there_are_no_results():
    assert run_tasks(None, lost, []) == []


def test_given_work_that_fails_when_done_then_its_sentence_is_what_remains(spark):
    with pytest.raises(Exception) as raised:
        run_tasks(spark, lost, [9])

    assert cause_of(str(raised.value)) == "offsets 0 to 9 are gone"
