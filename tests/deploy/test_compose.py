"""deploy/docker-compose.yml and prometheus.yml: that they fit the broker and one another."""

from pathlib import Path

import pytest

from broker.config import Config
from broker.config_sources import load
from tests.support.plain_yaml import load_plain_yaml

ROOT = Path(__file__).parents[2]


def compose():
    return load_plain_yaml((ROOT / "deploy/docker-compose.yml").read_text())


def test_given_the_compose_file_when_its_settings_are_read_then_the_broker_is_reachable():
    environment = compose()["services"]["tidelog"]["environment"]

    config = load(environment=environment).config

    assert (config.listeners.host, config.http.host) == ("0.0.0.0", "0.0.0.0")


def test_given_the_compose_file_when_ports_are_published_then_only_here_and_as_configured():
    defaults = Config()

    ports = [port for service in compose()["services"].values() for port in service["ports"]]

    assert all(port.startswith("127.0.0.1:") for port in ports)
    listeners = defaults.listeners
    wanted = {listeners.native_port, listeners.kafka_port, defaults.http.port}
    assert wanted <= {int(port.rpartition(":")[2]) for port in ports}


def test_given_the_compose_file_when_stopped_then_a_drain_has_time():
    grace = compose()["services"]["tidelog"]["stop_grace_period"]

    assert int(grace.removesuffix("s")) * 1000 > Config().daemon.shutdown_timeout_ms


def test_given_the_compose_file_when_built_then_its_files_are_there():
    services = compose()["services"]
    build = services["tidelog"]["build"]
    context = (ROOT / "deploy" / build["context"]).resolve()
    mounts = [mount.split(":") for service in services.values() for mount in service["volumes"]]

    assert (context / build["dockerfile"]).is_file()
    for source, *_ in mounts:
        named = source in compose()["volumes"]
        assert named or (ROOT / "deploy" / source).is_file(), source


def test_given_the_broker_in_compose_when_it_runs_then_it_may_write_to_its_volume_only():
    service = compose()["services"]["tidelog"]

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["volumes"] == ["tidelog-data:/data"]


def test_given_prometheus_when_it_scrapes_then_the_target_is_the_brokers_http_port():
    prometheus = load_plain_yaml((ROOT / "deploy/prometheus.yml").read_text())

    (job,) = prometheus["scrape_configs"]

    assert job["metrics_path"] == "/metrics"
    assert job["static_configs"] == [{"targets": [f"tidelog:{Config().http.port}"]}]
    assert "tidelog" in compose()["services"]


def test_given_plain_yaml_when_read_then_it_is_what_it_looks_like():
    text = '# c\na:\n  - x: 1\n    y: "2"\n  - plain\nb:\nc: true\n"d": 5s\n'

    value = load_plain_yaml(text)

    assert value == {"a": [{"x": 1, "y": "2"}, "plain"], "b": None, "c": True, "d": "5s"}


@pytest.mark.parametrize("text", ["a: [1]", "a: |\n  x", "a: *b", "a: 1\n   b: 2", "a: 1\na: 2"])
def test_given_other_yaml_when_read_then_it_is_refused(text):
    with pytest.raises(ValueError, match="line"):
        load_plain_yaml(text)
