"""Dockerfile and .dockerignore: what can be held of them without a container engine."""

import fnmatch
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from broker.config import Config
from broker.config_sources import load

ROOT = Path(__file__).parents[2]


def stages():
    """Return the build stages, each a list of (instruction, arguments)."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    found = []
    for line in joined.splitlines():
        name, _, arguments = line.partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append((name, arguments.strip()))
    return found


def instruction(name):
    (arguments,) = [arguments for other, arguments in stages()[-1] if other == name]
    return arguments


def environment():
    return dict(pair.split("=", 1) for pair in shlex.split(instruction("ENV")))


def test_given_the_dockerfile_when_staged_then_compilers_stay_out_of_the_image():
    build, image = stages()

    assert [stage[0][1].split()[0] for stage in (build, image)] == ["python:3.12-slim"] * 2
    assert any(name == "RUN" and "gcc" in arguments for name, arguments in build)
    assert not any("apt-get" in arguments for _, arguments in image)


def test_given_the_image_when_it_runs_then_its_user_is_fixed_and_not_root():
    user, group = instruction("USER").split(":")

    made = " ".join(arguments for name, arguments in stages()[-1] if name == "RUN")

    assert int(user) >= 10_000
    assert f"--uid {user} --gid {group}" in made
    assert f"--owner={user} --group={group} --mode=0700 /data" in made


def test_given_the_image_when_it_is_started_then_no_shell_stands_between_signal_and_broker():
    entrypoint, command = json.loads(instruction("ENTRYPOINT")), json.loads(instruction("CMD"))
    health = instruction("HEALTHCHECK").partition(" CMD ")[2]

    assert entrypoint + command == ["tidelog", "serve"]
    assert json.loads(health) == ["tidelog", "health"]
    assert instruction("STOPSIGNAL") == "SIGTERM"


def test_given_the_images_environment_when_read_then_it_is_a_configuration():
    config = load(environment=environment()).config

    assert (config.listeners.host, config.http.host) == ("0.0.0.0", "0.0.0.0")
    assert list(config.storage.data_dirs) == json.loads(instruction("VOLUME")) == ["/data"]


def test_given_the_image_when_published_then_the_ports_are_the_configured_ones():
    defaults = Config()

    exposed = {int(port) for port in instruction("EXPOSE").split()}

    listeners = defaults.listeners
    assert exposed == {listeners.native_port, listeners.kafka_port, defaults.http.port}


def test_given_the_build_when_it_copies_then_everything_named_is_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    copied = {
        source
        for name, arguments in stages()[0]
        if name == "COPY"
        for source in arguments.split()[:-1]
    }

    assert all((ROOT / source).exists() for source in copied)
    assert {"protocol", "broker", "tidelog", "pyproject.toml"} <= copied
    assert {project["project"]["readme"], *project["project"]["license-files"]} <= copied


@pytest.mark.parametrize(
    ("path", "goes_in"),
    [
        ("pyproject.toml", True),
        ("broker/daemon.py", True),
        ("protocol/native/requests.py", True),
        ("tests/data/some.log", False),
        (".git/config", False),
        (".venv/bin/python", False),
        ("tidelog-data/meta.properties", False),
        ("broker/__pycache__/x.pyc", False),
    ],
)
def test_given_dockerignore_when_the_context_is_sent_then_only_sources_are_in_it(path, goes_in):
    patterns = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    parts = path.split("/")
    prefixes = ["/".join(parts[: end + 1]) for end in range(len(parts))]

    ignored = False
    for pattern in patterns:  # the last one that matches the path or a parent of it decides
        plain = pattern.removeprefix("!").removeprefix("**/")
        named = prefixes if "**/" not in pattern else [*prefixes, *parts]
        if any(fnmatch.fnmatchcase(one, plain) for one in named):
            ignored = not pattern.startswith("!")

    assert ignored is not goes_in
