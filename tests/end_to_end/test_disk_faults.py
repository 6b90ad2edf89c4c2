"""A daemon on a real disk that is full, fails, goes away, or without descriptors to open it."""

import json
import resource
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from broker.exit_codes import ExitCode
from protocol.error_codes import ErrorCode
from tests.support.daemon_process import daemon_process
from tests.support.private_mounts import PrivateMounts
from tests.support.raw_client import RawClient

REFUSED = ErrorCode.KAFKA_STORAGE_ERROR
CLEAN_MARKER = ".kafka_cleanshutdown"
WAIT_S = 30
LOOK_S = 0.02


@pytest.fixture
def mounts():
    with PrivateMounts() as held:
        yield held


def readiness(daemon):
    """Return /readyz: status code and body."""
    address = json.loads(daemon.ready_file.read_text())["http"][0]
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=WAIT_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def wait_until(daemon, condition, what):
    """Wait for something that sends no word, or for the end of the daemon, which is a failure."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, what
        try:
            daemon.process.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"{what}: {daemon.log_file.read_text()}")


def produced_until_refused(client, topic, value):
    """Produce until it is refused; return the values that were acknowledged."""
    acknowledged = []
    for number in range(10_000):
        sent = b"%06d" % number + value
        answer = client.produce(topic, sent)
        if answer.error:
            assert answer.error == REFUSED
            return acknowledged
        assert answer.base_offset == number
        acknowledged.append(sent)
    raise AssertionError("the disk is never full")


def fetched(client, topic):
    values = []
    while True:
        error, more = client.fetch(topic, len(values))
        assert error == 0
        if not more:
            return values
        values += more


def messages(daemon):
    return [event["event"] for event in daemon.events()]


def test_given_a_disk_that_is_full_when_there_is_space_again_then_everything_goes_on(
    tmp_path, mounts
):
    """ENOSPC of write: cut back, error 56, and on; the list of topics is on that disk too."""
    data = tmp_path / "data"
    mounts.mount_memory(data, "24m")
    settings = ("storage.disk_reserve_bytes=0", "topics.segment_index_bytes=64KiB")
    with daemon_process(tmp_path, *settings, launcher=mounts.launcher) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            client.produce("other", b"x")
            filler = mounts.see(data / "filler")
            filler.write_bytes(bytes(8 * 1024 * 1024))
            kept = produced_until_refused(client, "logs", bytes(700_000))
            while_full = fetched(client, "logs")
            client.produce("new", b"x")  # neither is there room for a topic, perhaps

            filler.unlink()
            wait_until(daemon, lambda: client.produce("logs", b"again").error == 0, "no room again")
            after = fetched(client, "logs")

        assert len(kept) > 10
        assert while_full == kept
        assert after == [*kept, b"again"]
        assert daemon.terminate() == ExitCode.DRAINED
    assert mounts.see(data / CLEAN_MARKER).exists()
    mounts.run(f"{shlex.quote(sys.executable)} -m tidelog verify {shlex.quote(str(data))}")


def test_given_a_disk_that_is_nearly_full_when_it_has_room_then_producing_resumes_by_itself(
    tmp_path, mounts
):
    """The guard: a tenth of the disk is kept, /readyz says so, and the log once each way."""
    data = tmp_path / "data"
    mounts.mount_memory(data, "40m")
    with daemon_process(tmp_path, launcher=mounts.launcher) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            client.produce("logs", b"before")
            filler = mounts.see(data / "filler")
            filler.write_bytes(bytes(37 * 1024 * 1024))
            wait_until(
                daemon, lambda: client.produce("logs", b"x" * 9).error == REFUSED, "not paused"
            )
            before = fetched(client, "logs")
            status, body = readiness(daemon)

            filler.unlink()
            wait_until(daemon, lambda: client.produce("logs", b"after").error == 0, "not resumed")

            assert fetched(client, "logs") == [*before, b"after"]
        assert status == 200
        assert f"data directory {data} is nearly full" in body["degraded"][0]
        assert readiness(daemon)[1] == {"status": "ready"}
        assert daemon.terminate() == ExitCode.DRAINED
    assert messages(daemon).count("appends are refused; fetching and deleting go on") == 1
    assert messages(daemon).count("appends are taken again") == 1


def test_given_a_disk_that_fails_a_sync_when_repaired_then_the_acknowledged_is_there(
    tmp_path, mounts
):
    """A file system larger than what it lies on: write-back fails, and so does fdatasync.

    No acknowledgement after it, error 56 to who waits, an exit code of its own; and what was
    acknowledged before is on the disk.
    """
    data, below = tmp_path / "data", tmp_path / "below"
    mounts.mount_memory(below, "24m")
    image = shlex.quote(str(below / "disk"))
    target = shlex.quote(str(data))
    mounts.run(
        f"truncate -s 256m {image}; mkfs.ext4 -q -O ^metadata_csum -J size=4 {image};"
        f"mkdir {target}; mount -o loop {image} {target}",
        skip_because="no disk on a loop device can be mounted",
    )
    settings = ("storage.disk_reserve_bytes=0", "topics.segment_index_bytes=64KiB")
    with daemon_process(tmp_path, *settings, launcher=mounts.launcher) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            kept = produced_until_refused(client, "logs", b"v" * 700_000)
        code = daemon.wait()

    assert len(kept) > 5
    assert code == ExitCode.DISK
    assert "fsync failed; nothing is acknowledged any more" in messages(daemon)
    mounts.run(
        f"umount {target}; mount -o remount,size=300m {shlex.quote(str(below))};"
        f"e2fsck -fy {image} >/dev/null || test $? -le 2; mount -o loop {image} {target}"
    )
    with daemon_process(tmp_path, *settings, launcher=mounts.launcher) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            there = fetched(client, "logs")
        assert daemon.terminate() == ExitCode.DRAINED
    assert there[: len(kept)] == kept
    assert len(there) <= len(kept) + 1, "and nothing that nobody sent"


def test_given_a_directory_that_is_unmounted_when_used_then_the_other_one_goes_on(tmp_path, mounts):
    here, away = tmp_path / "here", tmp_path / "away"
    mounts.mount_memory(away, "16m")
    dirs = json.dumps([str(here), str(away)])
    with daemon_process(tmp_path, f"storage.data_dirs={dirs}", launcher=mounts.launcher) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            for topic in ("first", "second"):
                assert client.produce(topic, b"x").error == 0
            assert mounts.see(away / "second-0").is_dir()

            mounts.run(f"umount -l {shlex.quote(str(away))}")
            wait_until(
                daemon, lambda: client.produce("second", b"y").error == REFUSED, "not noticed"
            )

            assert client.produce("first", b"y").error == 0
            assert client.produce("third", b"z").error == 0
            assert (here / "third-0").is_dir()
            assert list(away.iterdir()) == [], "nothing is made in its place"
        status, body = readiness(daemon)
        assert status == 200
        assert f"data directory {away} cannot be reached" in body["degraded"][0]
        assert daemon.terminate() == ExitCode.NOT_DRAINED
    assert (here / CLEAN_MARKER).exists(), "the other one was stopped cleanly"
    assert not (away / CLEAN_MARKER).exists()


def test_given_a_read_only_directory_when_started_then_it_is_refused_in_a_sentence(
    tmp_path, mounts
):
    data = tmp_path / "data"
    mounts.mount_memory(data, "16m")
    mounts.run(f"mount -o remount,ro {shlex.quote(str(data))}")

    with daemon_process(tmp_path, launcher=mounts.launcher) as daemon:
        code = daemon.wait()

    assert code == ExitCode.DATA_DIRECTORY
    (reason,) = [event["reason"] for event in daemon.events() if event["event"] == "cannot start"]
    assert str(data) in reason
    assert "Read-only file system" in reason


def test_given_no_descriptors_left_when_clients_come_then_they_wait_and_the_rest_is_served(
    tmp_path,
):
    with daemon_process(tmp_path) as daemon:
        bound = daemon.wait_ready()
        pid = daemon.process.pid
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        with RawClient(bound["native_port"]) as client:
            client.produce("logs", b"x")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, before[1]))
            others = [
                socket.create_connection(("127.0.0.1", bound["native_port"])) for _ in range(80)
            ]
            wait_until(
                daemon,
                lambda: "no new connections are accepted for the time being" in messages(daemon),
                "accepting goes on",
            )
            assert "new connections wait" in readiness(daemon)[1]["degraded"][0]
            cpu_s = cpu_seconds(pid)
            for number in range(20):
                assert client.produce(f"new-{number}", b"x").error == 0, "files can be opened"
            before_s = time.monotonic()
            assert client.fetch("logs", 1, max_wait_ms=1_000) == (0, [])  # it waits for a second
            waited_s = time.monotonic() - before_s
            assert waited_s > 0.9
            assert cpu_seconds(pid) - cpu_s < 0.8 * waited_s, "it spins"

            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            for one in others:
                with one:
                    one.settimeout(WAIT_S)
                    one.sendall(bytes.fromhex("00000004 0005 0000"))  # TOPICS, of all
                    assert one.recv(4)
        assert daemon.terminate() == ExitCode.DRAINED
    assert messages(daemon).count("no new connections are accepted for the time being") == 1
    assert messages(daemon).count("connections are accepted again") == 1


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_given_a_directory_whose_parent_is_missing_when_started_then_it_is_refused(tmp_path):
    """A disk that was forgotten: its mount point, or what should be below it, is not there."""
    missing = tmp_path / "disk" / "data"

    with daemon_process(tmp_path, f"storage.data_dirs={missing}") as daemon:
        code = daemon.wait()

    assert code == ExitCode.DATA_DIRECTORY
    assert not missing.parent.exists()
    said = daemon.log_file.read_text()
    assert "is a disk not mounted?" in said
