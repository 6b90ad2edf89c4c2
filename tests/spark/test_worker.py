"""What a task does for the process that runs it."""

from __future__ import annotations

import sys
import types

import pytest

from tidelog.spark import worker


@pytest.fixture
def calls(monkeypatch):
    """What is asked of the collector, which in the process of these tests is left alone."""
    made = []
    collector = types.SimpleNamespace(
        collect=lambda: made.append("collect"), freeze=lambda: made.append("freeze")
    )
    monkeypatch.setattr(worker, "gc", collector)
    monkeypatch.setattr(worker, "_frozen_modules", 0)
    return made


def test_given_tasks_that_import_nothing_new_when_frozen_then_once(calls):
    for _ in range(3):
        worker.freeze_modules()

    assert calls == ["collect", "freeze"]


def test_given_a_task_that_imports_more_when_frozen_then_what_is_new_is_frozen_too(
    calls, monkeypatch
):
    worker.freeze_modules()
    monkeypatch.setitem(sys.modules, "tidelog_imported_later", types.ModuleType("later"))

    worker.freeze_modules()

    assert calls == ["collect", "freeze"] * 2
