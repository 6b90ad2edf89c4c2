"""`tidelog config`: what is configured, where it comes from, and what is wrong with a file."""

import tomllib

import pytest

from broker.config import Config
from tests.support.command_line import call


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "tidelog.toml"
        path.write_text(text)
        return str(path)

    return write


def test_given_nothing_when_printed_then_it_is_a_file_with_every_default(file):
    outcome = call("config", "print")

    again = call("config", "print", "--config", file(outcome.text), "--json")
    assert outcome.code == 0
    assert list(tomllib.loads(outcome.text)) == list(Config.__struct_fields__)
    assert all(line.endswith("# default") for line in outcome.text.splitlines() if "=" in line)
    assert {one["source"] for one in again.json} == {"file"}
    assert call("config", "print", "--json").json == [
        {**one, "source": "default", "where": None} for one in again.json
    ]


def test_given_all_sources_when_printed_then_the_origin_of_each_value_is_said(file, monkeypatch):
    path = file('[log]\nlevel = "debug"\n[http]\nport = 1\n')
    monkeypatch.setenv("TIDELOG__HTTP__PORT", "2")

    outcome = call("config", "print", "--config", path, "--set", "storage.data_dirs=/a,/b")

    lines = [" ".join(line.split()) for line in outcome.text.splitlines()]
    assert f'level = "debug" # {path}:2' in lines
    assert "port = 2 # TIDELOG__HTTP__PORT" in lines
    assert 'data_dirs = ["/a", "/b"] # --set storage.data_dirs' in lines


def test_given_json_when_printed_then_values_are_typed(monkeypatch):
    outcome = call("config", "print", "--json", "--set", "topics.segment_bytes=1MiB")

    found = {one["key"]: one for one in outcome.json}
    assert found["topics.segment_bytes"] == {
        "key": "topics.segment_bytes",
        "value": 1_048_576,
        "source": "command line",
        "where": "--set topics.segment_bytes",
    }
    assert found["storage.data_dirs"]["value"] == ["./tidelog-data"]
    assert found["http.enabled"]["value"] is True


def test_given_mistakes_when_printed_then_all_are_told_and_nothing_is_shown(file):
    outcome = call(
        "config", "print", "--config", file("[log]\nlevle = 1\n"), "--set", "http.port=x"
    )

    assert outcome.code == 1
    assert outcome.output == b""
    assert len(outcome.errors.splitlines()) == 2
    assert "log.level" in outcome.errors


def test_given_a_good_file_when_checked_then_it_is_said(file):
    path = file('[log]\nlevel = "debug"\n')

    outcome = call("config", "check", path)

    assert (outcome.code, outcome.text) == (0, f"{path} can be used\n")
    assert call("config", "check", path, "--json").json == {"file": path, "problems": []}


def test_given_a_bad_file_when_checked_then_line_and_cure_are_told(file):
    path = file('[log]\nlevel = "loud"\n[storage]\nopen_file_max = 3\n')

    outcome = call("config", "check", path)
    as_json = call("config", "check", path, "--json")

    assert (outcome.code, as_json.code) == (1, 1)
    assert outcome.errors.splitlines()[0].startswith(f"tidelog: {path}:2: log.level: ")
    assert "did you mean storage.open_files_max?" in outcome.errors.splitlines()[1]
    assert [one["path"] for one in as_json.json["problems"]] == [
        "log.level",
        "storage.open_file_max",
    ]


def test_given_the_environment_when_a_file_is_checked_then_the_file_alone_counts(file, monkeypatch):
    monkeypatch.setenv("TIDELOG__HTTP__PORT", "nonsense")

    outcome = call("config", "check", file(""))

    assert outcome.code == 0


@pytest.mark.parametrize("content", ["[log", None])
def test_given_no_toml_when_checked_then_one_sentence_says_so(file, tmp_path, content):
    path = str(tmp_path / "missing.toml") if content is None else file(content)

    outcome = call("config", "check", path)

    assert outcome.code == 1
    assert path in outcome.errors
    assert outcome.errors.count("\n") == 1
