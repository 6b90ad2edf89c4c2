"""The daemon's command line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import arguments
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


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--set"], "--set"),
        (["--config", "--set", "a.b=1"], "--config"),
        (["--ready-file", "-x"], "--ready-file"),
        (["--set", "a.b=1", "stray"], "stray"),
        (["--allow"], "--allow-missing-dir"),
    ],
)
def test_given_a_mistake_when_parsed_then_the_option_is_named(options, named, capsys):
    with pytest.raises(SystemExit) as caught:
        parse_arguments(options)

    assert caught.value.code == 2
    assert named in capsys.readouterr().err.splitlines()[-1]


def test_given_an_abbreviation_when_parsed_then_argparse_knows_it():
    assert parse_arguments(["--conf=a.toml"]) == ServeArguments(config_file=Path("a.toml"))


WORDS = st.sampled_from(
    [
        *arguments.OPTIONS,
        *(f"{name}=x" for name in arguments.OPTIONS),
        *("--set=", "--set=a=b", "a.b=1", "", "-", "--", "-h", "--conf", "-1", "x y"),
    ]
)


@given(options=st.lists(WORDS, max_size=5))
def test_given_any_line_when_it_is_plain_then_argparse_reads_the_same(options):
    """The two readers of a command line agree wherever the quick one dares to answer."""
    plain = arguments._plain_options(options)

    if plain is not None:
        assert plain == arguments._options_by_argparse(options, "tidelog serve")
