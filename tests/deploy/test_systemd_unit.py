"""deploy/tidelog.service: that it fits the daemon, and keeps it in its place."""

from pathlib import Path

import pytest

from broker.config import Config
from broker.config_sources import load

UNIT = Path(__file__).parents[2] / "deploy/tidelog.service"


def settings():
    """Return {section: {key: [values]}}."""
    found = {}
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


def service(key):
    (value,) = settings()["Service"][key]
    return value


def test_given_the_unit_when_systemd_starts_it_then_it_waits_for_readiness():
    assert service("Type") == "notify"
    assert service("ExecStart").endswith("/tidelog serve")
    assert "HUP" in service("ExecReload")


def test_given_the_units_environment_when_read_then_it_is_a_configuration():
    environment = dict(pair.split("=", 1) for pair in settings()["Service"]["Environment"])

    config = load(environment=environment).config

    assert config.storage.data_dirs == (f"/var/lib/{service('StateDirectory')}",)
    assert config.log.format == "json"


def test_given_the_unit_when_stopped_then_a_drain_has_time():
    assert int(service("TimeoutStopSec")) * 1000 > Config().daemon.shutdown_timeout_ms


def test_given_the_unit_when_files_are_opened_then_the_limit_covers_the_defaults():
    config = Config()
    per_directory = config.storage.open_files_max + config.storage.mapped_files_max

    assert int(service("LimitNOFILE")) > config.limits.connections_max + 2 * per_directory


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("CapabilityBoundingSet", ""),
        ("UMask", "0077"),
        ("StateDirectoryMode", "0700"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
    ],
)
def test_given_the_unit_when_it_runs_then_it_is_kept_in_its_place(key, value):
    assert service(key) == value
