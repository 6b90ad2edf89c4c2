"""The daemon's command line."""

from pathlib import Path

import pytest

from broker.arguments import ServeArguments, parse_arguments
from broker.config_sources import load


def test_given_nothing_when_parsed_then_nothing_is_set():
    assert parse_arguments([]) == ServeArguments()


def test_given_all_options_when_parsed_then_they_are_settings():
    options = ["--config", "a.toml", "--set", "log.level=debug", "--set=http.port=0"]
    options += ["--ready-file", "/run/x"]
    options += ["--allow-missing-dir", '/a"b', "--allow-missing-dir=/c,d"]

    parsed = parse_arguments(options)

    assert parsed.config_file == Path("a.toml")
    assert parsed.settings[:2] == ("log.level=debug", "http.port=0")
    directories = 'storage.data_dirs=["/first", "/a\\"b", "/c,d"]'
    config = load(settings=[*parsed.settings, directories]).config
    assert config.daemon.ready_file == "/run/x"
    assert config.daemon.allow_missing_dirs == ('/a"b', "/c,d")


@pytest.mark.parametrize(("argument", "code"), [("--nonsense", 2), ("--help", 0), ("--version", 0)])
def test_given_usage_when_parsed_then_the_process_would_end(argument, code, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_arguments([argument])

    assert caught.value.code == code
    assert "tidelog" in "".join(capsys.readouterr())
