"""What SIGHUP can change."""

from broker import config_keys
from broker.config import Config
from broker.config_sources import load
from broker.reload import RELOADABLE_LIMITS, Changes, changes_between, is_reloadable


def test_given_no_change_when_compared_then_there_is_none():
    assert changes_between(Config(), Config()) == Changes((), ())


def test_given_changes_when_compared_then_they_are_told_apart():
    new = load(
        settings=[
            "log.level=debug",
            "limits.idle_timeout_ms=1m",
            "topics.retention_ms=1d",
            "http.port=1",
            "limits.in_flight_bytes_max=1GiB",
        ]
    ).config

    changes = changes_between(Config(), new)

    assert changes.taken_over == ("topics.retention_ms", "limits.idle_timeout_ms", "log.level")
    assert changes.needing_restart == ("http.port", "limits.in_flight_bytes_max")


def test_given_the_names_of_limits_when_looked_up_then_they_are_keys():
    assert config_keys.all_keys().keys() >= RELOADABLE_LIMITS


def test_given_sockets_and_directories_when_asked_then_they_need_a_restart():
    fixed = {
        table for table in Config.__struct_fields__ if table not in ("log", "topics", "limits")
    }

    paths = [path for path in config_keys.all_keys() if path.split(".")[0] in fixed]

    assert not any(is_reloadable(path) for path in paths)
