"""Wrong usage: one sentence on standard error, exit code 2, nothing on standard output."""

import pytest

from tests.support.command_line import call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--nonsense", "No such option: --nonsense"),
        ("nonsense", "No such command 'nonsense'"),
        ("topics nonsense", "No such command 'nonsense'"),
        ("consume", "Missing argument 'TOPIC'"),
        ("consume t --format xml", "xml"),
        ("consume t --from yesterday", "--from yesterday"),
        ("consume t --from -5", "--from -5"),
        ("consume t --max -1", "--max"),
        ("consume t --format template", "--format template needs --template"),
        ("consume t --format json --template x", "--template goes with --format template"),
        ("consume t --template {nonsense}", "{nonsense} is none of {topic}, {partition}"),
        ("consume t --broker localhost:http", "the port must be a number"),
        ("produce t --acks 2", "--acks"),
        ("produce t --compression rar", "--compression"),
        ("produce t --batch-bytes 0", "--batch-bytes"),
        ("produce t --partition -1", "--partition"),
        ("produce t --key-separator=", "--key-separator must not be empty"),
        ("topics create t --partitions 0", "--partitions"),
        ("topics create t --set retention.ms", "write --set key=value"),
        ("topics create t --set a=1 --set a=2", "--set a is given twice"),
        ("offsets t --time soon", "--time soon"),
        ("spark replay lake --topic t --target x --compression rar", "rar: it may be none, gzip"),
        ("spark stats data --metrics-file no/such.prom", "there is no directory no"),
        ("verify", "Missing argument"),
        ("dump", "Missing argument 'FILE'"),
        ("config check", "Missing argument 'FILE'"),
    ],
)
def test_given_wrong_usage_when_called_then_one_sentence_says_what_and_where_help_is(
    arguments, said
):
    outcome = call(*arguments.split())

    assert outcome.code == 2
    assert said in outcome.errors
    assert outcome.errors.startswith("tidelog: ")
    assert outcome.errors.count("\n") == 1
    assert "--help" in outcome.errors
    assert outcome.output == b""


@pytest.mark.parametrize("group", ["", "topics", "config"])
def test_given_a_group_alone_when_called_then_its_commands_are_listed(group):
    outcome = call(*group.split())

    assert outcome.code == 2
    assert "Commands" in outcome.text + outcome.errors


@pytest.mark.parametrize(
    "arguments",
    [
        "topics list",
        "topics describe t",
        "topics create t",
        "topics delete t --yes",
        "offsets t",
        "consume t",
        "consume t --follow",
        "produce t",
    ],
)
def test_given_no_broker_when_asked_then_exit_code_3_says_so(arguments, free_port, monkeypatch):
    monkeypatch.setattr("tidelog.client.retrying.BACKOFF_FIRST_S", 0.0)
    monkeypatch.setenv("TIDELOG_BROKER", f"127.0.0.1:{free_port}")

    outcome = call(*arguments.split(), stdin=b"a line\n")

    assert outcome.code == 3
    assert outcome.errors == (
        f"tidelog: cannot reach the broker: 127.0.0.1:{free_port}: Connection refused\n"
    )
    assert outcome.output == b""


def test_given_a_bug_when_it_shows_then_there_is_a_sentence_and_no_traceback(monkeypatch, capsys):
    from tidelog.cli import app

    monkeypatch.setattr("tidelog.cli.times.EPOCH", None)

    code = app.execute(["offsets", "t", "--time", "2026-01-01", "--broker", "localhost:1"])

    said = capsys.readouterr().err
    assert code == 1
    assert said.startswith("tidelog: this is a bug: TypeError")
    assert said.count("\n") == 1
