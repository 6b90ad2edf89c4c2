"""What is freed is kept for the next request, in a process of its own."""

import os
import platform
import subprocess
import sys

import pytest

from broker.freed_memory import OPERATORS_OWN

ROUNDS = 50
PROGRAM = f"""
import resource
from broker.freed_memory import keep_freed_memory

print(keep_freed_memory())
for turn in range({ROUNDS} + 5):
    if turn == 5:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"x" * 500_000 for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES = 4 * 500_000 // 4096 * ROUNDS


def run(**variables: str) -> tuple[bool, int]:
    """Return whether it was set, and the page faults of rounds that take and free 2 MB."""
    environment = {key: value for key, value in os.environ.items() if key not in OPERATORS_OWN}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    is_set, faults = done.stdout.split()
    return is_set == "True", int(faults)


def test_given_glibc_when_blocks_are_taken_and_freed_then_their_pages_stay():
    is_set, faults = run()

    assert is_set == (platform.libc_ver()[0] == "glibc")
    assert not is_set or faults < PAGES / 20


@pytest.mark.parametrize("name", OPERATORS_OWN)
def test_given_an_operators_own_setting_when_asked_then_it_is_left_alone(name):
    is_set, _ = run(**{name: "glibc.malloc.trim_threshold=4096" if "GLIBC" in name else "4096"})

    assert not is_set
