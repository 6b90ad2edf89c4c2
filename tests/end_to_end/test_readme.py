"""README.md: what it shows for the shell and for Python works as it stands."""

import contextlib
import io
import json
import re
import shlex
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.command_line import run, start
from tests.support.running_broker import BrokerProcess
from tidelog.cli.times import parse_time

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker of its own: the README's topic is "logs"."""
    with BrokerProcess(tmp_path_factory.mktemp("readme")) as running:
        (running.directory / "tidelog-data").symlink_to(running.data_directory)
        yield running


def block(heading, language=""):
    """Return the first code block under a heading."""
    part = README.partition(f"## {heading}\n")[2]
    return re.search(rf"^```{language}\n(.*?)^```", part, re.DOTALL | re.MULTILINE)[1]


def test_given_the_shell_commands_when_run_one_by_one_then_they_do_what_they_say(
    broker, monkeypatch
):
    monkeypatch.setenv("TIDELOG_BROKER", broker.address)
    monkeypatch.chdir(broker.directory)
    commands = block("Use it from a shell").splitlines()

    create, produce, consume, follow, verify = map(arguments_of, commands)
    created, produced = run(*create), run(*produce, stdin=b"from syslog\n")
    consumed = run(*consume)
    time = follow.index("--from") + 1
    assert parse_time(follow[time]).tzinfo is not None
    follow[time] = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    following = start(*follow)
    followed = json.loads(following.stdout.readline())
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=30)
    assert broker.stop() == 0
    verified = run(*verify)

    assert (created.code, produced.code, consumed.code, verified.code) == (0, 0, 0, 0)
    assert consumed.output == b"from syslog\n"
    assert followed["value"] == "from syslog"
    assert verified.text.endswith(": clean\n")


def test_given_the_python_example_when_run_then_it_writes_and_reads(tmp_path):
    with BrokerProcess(tmp_path, "http.enabled=false") as broker:
        source = block("Use it from Python", "python").replace("localhost:9091", broker.address)
        written = io.StringIO()

        with contextlib.redirect_stdout(written):
            exec(compile(source, "README.md", "exec"), {})

    assert written.getvalue() == "0\n0 b'a line'\n"


def arguments_of(line):
    """Return the arguments of the `tidelog` in a line of shell, without what feeds it."""
    program, *arguments = shlex.split(line.rpartition("|")[2], comments=True)
    assert program == "tidelog"
    return arguments
