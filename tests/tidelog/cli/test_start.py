"""What a command loads before it does anything: `serve` and `health` stay light."""

import subprocess
import sys

import pytest

HEAVY = {"typer", "click", "rich", "aiohttp", "prometheus_client", "tidelog.client"}
PROBE = """
import sys
from tidelog.cli import main
sys.argv = ["tidelog", *{arguments!r}]
try:
    main.run()
except SystemExit as end:
    print("ended", end.code)
print(sorted(set(sys.modules) & {heavy!r}))
"""


def loaded_by(*arguments, heavy=HEAVY):
    program = PROBE.format(arguments=arguments, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    *_, ended, loaded = done.stdout.splitlines()
    return ended, eval(loaded)


def test_given_serve_when_it_starts_then_neither_typer_nor_rich_nor_http_is_loaded():
    ended, loaded = loaded_by("serve", "--set", "no.such=1")

    assert (ended, loaded) == ("ended 2", [])


def test_given_serve_when_asked_for_help_then_it_has_some_without_them():
    ended, loaded = loaded_by("serve", "--help")

    assert (ended, loaded) == ("ended 0", [])


def test_given_health_when_it_asks_then_next_to_nothing_is_loaded(free_port):
    heavy = HEAVY | {"asyncio", "http.client", "email", "ssl", "uvloop", "msgspec", "broker"}

    ended, loaded = loaded_by("health", "--url", f"http://127.0.0.1:{free_port}", heavy=heavy)

    assert (ended, loaded) == ("ended 1", [])


@pytest.mark.parametrize("arguments", [["config", "print"], ["--help"], ["verify", "missing"]])
def test_given_a_command_that_asks_nobody_when_it_runs_then_no_client_is_loaded(arguments):
    _, loaded = loaded_by(*arguments, heavy={"tidelog.client", "uvloop", "aiohttp"})

    assert loaded == []
