"""DirectoryLock: who may use a data directory, and whether it is still the same one."""

import errno
import os
import subprocess
import sys

import pytest

from broker.stopped.running import refuse_running
from broker.storage.directory_lock import DirectoryLock
from protocol.errors import DataDirectoryError

LOCK_AS_JAVA_DOES = """
import fcntl, sys
file = open(sys.argv[1], "a+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused", flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""
"""java.nio's FileChannel.tryLock is fcntl(F_SETLK) of a write lock over the whole file."""


class Kafka:
    """Another process, that locks as Apache Kafka does."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [sys.executable, "-c", LOCK_AS_JAVA_DOES, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.outcome = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate("")


def test_given_a_held_lock_when_taken_again_then_the_holder_is_named(tmp_path):
    held = DirectoryLock(tmp_path / ".lock")

    with pytest.raises(DataDirectoryError, match=f"the broker with process id {os.getpid()}"):
        DirectoryLock(tmp_path / ".lock")

    held.release()
    DirectoryLock(tmp_path / ".lock").release()


def test_given_a_live_kafka_when_locked_then_it_is_refused_with_its_process_id(tmp_path):
    with Kafka(tmp_path / ".lock") as kafka:
        assert kafka.outcome == "locked"

        with pytest.raises(DataDirectoryError, match=rf"Kafka.* process id {kafka.process.pid}\b"):
            DirectoryLock(tmp_path / ".lock")
        with pytest.raises(DataDirectoryError, match="Kafka"):
            refuse_running(tmp_path)

    refuse_running(tmp_path)
    DirectoryLock(tmp_path / ".lock").release()


def test_given_our_lock_when_a_kafka_starts_then_it_is_refused_even_after_others_looked(tmp_path):
    """A plain fcntl lock would be gone once the refused ones have closed the file."""
    held = DirectoryLock(tmp_path / ".lock")
    with pytest.raises(DataDirectoryError):
        DirectoryLock(tmp_path / ".lock")
    with pytest.raises(DataDirectoryError, match="running broker"):
        refuse_running(tmp_path)

    with Kafka(tmp_path / ".lock") as while_held:
        pass
    held.release()
    with Kafka(tmp_path / ".lock") as after:
        pass

    assert (while_held.outcome, after.outcome) == ("refused", "locked")


def test_given_the_directory_is_another_when_checked_then_that_is_an_error(tmp_path):
    directory = tmp_path / "data"
    directory.mkdir()
    lock = DirectoryLock(directory / ".lock")
    lock.check()

    directory.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        lock.check()
    directory.mkdir()
    (directory / ".lock").touch()
    with pytest.raises(OSError, match="another directory") as caught:
        lock.check()

    assert caught.value.errno == errno.ESTALE
    lock.release()
