"""Open files: the soft limit is lifted, and too low a hard one is told."""

import resource

import pytest
from structlog.testing import capture_logs

from broker import process_limits
from broker.config_sources import load

CONFIG = load(settings=["limits.connections_max=1000", "storage.open_files_max=100"]).config
WANTED = 1000 + 100 + CONFIG.storage.mapped_files_max + process_limits.OTHER_FILES


@pytest.fixture
def limits(monkeypatch):
    """The process's limits, as a variable: [soft, hard]."""
    current = [0, 0]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(current))
    monkeypatch.setattr(
        resource, "setrlimit", lambda _, pair: current.__setitem__(slice(None), pair)
    )
    return current


@pytest.mark.parametrize(
    ("before", "after", "warned"),
    [
        ([1024, 10**6], [WANTED, 10**6], False),
        ([1024, resource.RLIM_INFINITY], [WANTED, resource.RLIM_INFINITY], False),
        ([resource.RLIM_INFINITY] * 2, [resource.RLIM_INFINITY] * 2, False),
        ([10**6, 10**6], [10**6, 10**6], False),
        ([256, 512], [512, 512], True),
    ],
)
def test_given_limits_when_raised_then_they_suit_the_configuration(limits, before, after, warned):
    limits[:] = before

    with capture_logs() as logs:
        process_limits.raise_open_files_limit(CONFIG)

    assert limits == after
    assert [entry["log_level"] for entry in logs] == ["warning"] * warned


def test_given_a_refusal_when_raised_then_it_is_told_and_no_error(limits, monkeypatch):
    limits[:] = [256, 10**6]

    def refuse(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    with capture_logs() as logs:
        process_limits.raise_open_files_limit(CONFIG)

    assert len(logs) == 2
    assert limits == [256, 10**6]


@pytest.mark.parametrize(
    ("soft", "directories", "fitting"),
    [
        (256, 1, 32),
        (256, 2, 16),
        (64, 1, process_limits.FILES_MIN),
        (10**6, 1, 1_000),
        (resource.RLIM_INFINITY, 1, 1_000),
    ],
)
def test_given_a_limit_when_files_are_shared_out_then_idle_ones_leave_room(
    limits, soft, directories, fitting
):
    limits[:] = [soft, soft]

    files = process_limits.files_fitting(process_limits.IDLE_FILES_PART, directories, wanted=1_000)

    assert files == fitting
