"""What a command loads before it does anything: `serve` and `health` stay light."""

import subprocess
import sys
from pathlib import Path

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


PIPELINE = {"numpy", "pyarrow", "numba", "pandas", "pyspark", "py4j"}
"""What the Spark pipeline needs, and takes long to load."""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["spark", "--help"], ["spark", "lag", "--help"], ["config", "print"]]
)
def test_given_a_command_without_spark_when_it_runs_then_nothing_of_the_pipeline_is_loaded(
    arguments,
):
    ended, loaded = loaded_by(*arguments, heavy=PIPELINE)

    assert (ended, loaded) == ("ended 0", [])


@pytest.mark.parametrize(
    "module", ["tidelog", "tidelog.client", "tidelog.cli.app", "tidelog.demo.__main__"]
)
def test_given_a_module_when_imported_then_nothing_of_the_pipeline_is_loaded(module):
    program = f"import sys, {module}; print(sorted(set(sys.modules) & {PIPELINE!r}))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert done.stdout == b"[]\n"


def test_given_a_broker_that_serves_when_looked_at_then_nothing_of_the_pipeline_is_in_it(broker):
    mapped = Path(f"/proc/{broker.process.pid}/maps").read_text()

    assert "/msgspec/" in mapped  # packages are seen there
    assert not [name for name in PIPELINE if f"/{name}/" in mapped]
