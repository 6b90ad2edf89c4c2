"""The daemon as a process: signals, exit codes, what it says and to whom."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from broker.exit_codes import ExitCode
from protocol.error_codes import ErrorCode
from tests.support.daemon_process import ROOT, daemon_process
from tests.support.raw_client import RawClient, fetch_request, produce_request

CLEAN_MARKER = ".kafka_cleanshutdown"


def events_named(daemon, name):
    return [event for event in daemon.events() if event["event"] == name]


def test_given_a_daemon_when_terminated_then_it_drains_and_the_next_one_finds_all(tmp_path):
    with daemon_process(tmp_path) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            produced = client.produce("logs", b"a", b"b")
        code = daemon.terminate()
        assert daemon.told("STOPPING=1")

    assert (produced.error, produced.base_offset, produced.message_count) == (0, 0, 2)
    assert code == ExitCode.DRAINED
    assert (tmp_path / "data" / CLEAN_MARKER).exists()
    assert not daemon.ready_file.exists()
    with daemon_process(tmp_path) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"], "::1") as client:
            assert client.fetch("logs") == (0, [b"a", b"b"])


def test_given_a_daemon_when_killed_then_nothing_acknowledged_is_gone(tmp_path):
    with daemon_process(tmp_path) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            client.produce("logs", b"kept")
        daemon.signal(signal.SIGKILL)
        daemon.wait()

    with daemon_process(tmp_path) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            assert client.fetch("logs") == (0, [b"kept"])
    assert not (tmp_path / "data" / CLEAN_MARKER).exists()


def test_given_a_daemon_when_it_is_ready_then_metrics_and_health_are_served(tmp_path):
    with daemon_process(tmp_path) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            client.produce("logs", b"12345")
        base = f"http://localhost:{bound['http_port']}"
        ready = json.load(urllib.request.urlopen(f"{base}/readyz"))
        metrics = urllib.request.urlopen(f"{base}/metrics").read().decode()

    assert ready == {"status": "ready"}
    assert 'tidelog_requests_total{api="native",type="produce"} 1.0' in metrics
    assert 'tidelog_topic_messages_in_total{topic="logs"} 1.0' in metrics
    assert 'tidelog_partition_high_watermark{partition="0",topic="logs"} 1.0' in metrics
    assert 'loop="uvloop"' in metrics


def test_given_a_long_poll_when_terminated_then_it_is_answered_at_once(tmp_path):
    with daemon_process(tmp_path) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            client.produce("logs", b"x")
            client.send(fetch_request("logs", 1, max_wait_ms=60_000))
            daemon.signal(signal.SIGTERM)
            answer, after = client.answer(), client.answer()
        code = daemon.wait()

    assert answer == b"\0\0"  # no error, nothing new
    assert after is None
    assert code == ExitCode.DRAINED


FETCHES_THAT_FILL = 7
"""Answers of 900 KB: more than the 4 MiB that the kernel takes for a client that does not read."""


def stuck_client(bound):
    """Ask for more than sockets hold, and never read it; return when the broker holds the rest."""
    client = RawClient(bound["native_port"])
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.produce("logs", bytes(900_000))
    for _ in range(40):
        client.send(fetch_request("logs"))
    metrics_url = f"http://localhost:{bound['http_port']}/metrics"
    taken_in = re.compile(r'tidelog_requests_total{api="native",type="fetch"} (\d+)')
    while True:
        found = taken_in.search(urllib.request.urlopen(metrics_url).read().decode())
        if found and int(found[1]) >= FETCHES_THAT_FILL:
            return client


def test_given_a_client_that_does_not_read_when_time_is_up_then_it_is_cut_off(tmp_path):
    with daemon_process(tmp_path, "daemon.shutdown_timeout_ms=1s") as daemon:
        bound = daemon.wait_ready()
        with stuck_client(bound):
            code = daemon.terminate()

    assert code == ExitCode.DRAINED
    assert events_named(daemon, "stopped")[0]["connections_cut"] == 1
    assert (tmp_path / "data" / CLEAN_MARKER).exists()


def test_given_a_drain_that_lasts_when_a_second_signal_comes_then_it_ends_at_once(tmp_path):
    with daemon_process(tmp_path, "daemon.shutdown_timeout_ms=10min") as daemon:
        bound = daemon.wait_ready()
        with stuck_client(bound):
            daemon.signal(signal.SIGTERM)
            daemon.told("STOPPING=1")
            daemon.signal(signal.SIGINT)
            code = daemon.wait()

    assert code == ExitCode.NOT_DRAINED
    assert not (tmp_path / "data" / CLEAN_MARKER).exists()


def test_given_sighup_when_the_file_changed_then_what_can_be_is_taken_over(tmp_path):
    file = tmp_path / "tidelog.toml"
    file.write_text("[topics]\nauto_create = true\n[http]\nmetric_topics_max = 5\n")
    code = (
        "import sys; from broker.daemon import main; "
        f"sys.exit(main(['--config', {str(file)!r}, *sys.argv[1:]]))"
    )
    with daemon_process(tmp_path, code=code) as daemon:
        bound = daemon.wait_ready()
        file.write_text("[topics]\nauto_create = false\n[http]\nmetric_topics_max = 6\n")
        daemon.signal(signal.SIGHUP)
        daemon.told("RELOADING=1")
        daemon.told("READY=1")
        with RawClient(bound["native_port"]) as client:
            refused = client.produce("logs", b"x")
        file.write_text("[topics]\nauto_create = maybe\n")
        daemon.signal(signal.SIGHUP)
        daemon.told("READY=1")
        assert daemon.terminate() == ExitCode.DRAINED

    assert refused.error == 3  # UNKNOWN_TOPIC_OR_PARTITION
    assert events_named(daemon, "configuration reloaded")[0]["changed"] == ["topics.auto_create"]
    assert events_named(daemon, "restart needed for")[0]["keys"] == ["http.metric_topics_max"]
    (failed,) = events_named(daemon, "configuration not reloaded")
    assert "is not TOML" in failed["problems"][0]


STUCK_RECOVERY = """
import asyncio, sys, threading
from broker import daemon, partition_manager
async def open_for_ever(self):
    await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
partition_manager.PartitionManager.open = open_for_ever
sys.exit(daemon.main(sys.argv[1:]))
"""


def test_given_a_long_recovery_when_terminated_then_the_process_ends_at_once(tmp_path):
    with daemon_process(tmp_path, code=STUCK_RECOVERY) as daemon:
        daemon.told("STATUS=opening data directories")
        code = daemon.terminate()

    assert code == ExitCode.DRAINED
    assert events_named(daemon, "stopped before it was ready")


def run_to_its_end(directory, *settings):
    with daemon_process(directory, *settings) as daemon:
        return daemon.wait(), daemon.log_file.read_text()


def test_given_a_bad_configuration_when_started_then_the_code_says_so(tmp_path):
    code, said = run_to_its_end(tmp_path, "log.level=loud")

    assert code == ExitCode.USAGE
    assert said.startswith('--set log.level: log.level: "loud" is not possible')


def test_given_a_directory_in_use_when_started_then_the_code_says_so(tmp_path):
    (tmp_path / "data").mkdir()
    with (tmp_path / "data" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, said = run_to_its_end(tmp_path)

    assert code == ExitCode.DATA_DIRECTORY
    assert "is in use by" in said


def test_given_a_file_as_data_directory_when_started_then_it_is_named(tmp_path):
    (tmp_path / "data").write_text("not a directory")

    code, said = run_to_its_end(tmp_path)

    assert code == ExitCode.DATA_DIRECTORY
    assert f"{tmp_path / 'data'} is no directory: name another" in said


@pytest.mark.parametrize("key", ["listeners.native_port", "http.port"])
def test_given_a_port_in_use_when_started_then_the_code_says_so(tmp_path, key):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = run_to_its_end(tmp_path, f"{key}={port}")

    assert code == ExitCode.LISTEN
    assert f"{key}: cannot listen on 127.0.0.1 port {port}" in said


FAILING_SYNC = """
import os, sys
from broker.storage import os_disk
def failing(descriptor):
    if os.path.exists({marker!r}) and os.readlink(f"/proc/self/fd/{{descriptor}}").endswith(".log"):
        raise OSError(5, "Input/output error")
    os.fdatasync(descriptor)
os_disk._sync = failing
from broker.daemon import main
sys.exit(main(sys.argv[1:]))
"""

FAILING_SYNC_IN_KERNEL = """
import os, sys
from broker.storage.kernel_aio import KernelAio
ended = KernelAio.ended
KernelAio.ended = lambda self: [5 * os.path.exists({marker!r}) or one for one in ended(self)]
from broker.daemon import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("program", "in_kernel"), [(FAILING_SYNC, "false"), (FAILING_SYNC_IN_KERNEL, "true")]
)
def test_given_a_disk_that_fails_a_sync_when_producing_then_the_process_ends_unacknowledged(
    tmp_path, program, in_kernel
):
    marker = tmp_path / "fail"
    code, setting = program.format(marker=str(marker)), f"flush.in_kernel={in_kernel}"
    with daemon_process(tmp_path, setting, code=code) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            first = client.produce("logs", b"kept")
            marker.touch()
            client.send(produce_request("logs", b"lost"))
            answer = client.answer()
        code = daemon.wait()

    assert first.error == 0
    assert answer[:2] == ErrorCode.KAFKA_STORAGE_ERROR.to_bytes(2, "big")
    assert code == ExitCode.DISK
    assert not (tmp_path / "data" / CLEAN_MARKER).exists()


def test_given_no_uvloop_when_started_then_asyncio_serves(tmp_path):
    code = (
        "import sys; sys.modules['uvloop'] = None\n"
        "from broker.daemon import main; sys.exit(main(sys.argv[1:]))"
    )
    with daemon_process(tmp_path, code=code) as daemon:
        bound = daemon.wait_ready()
        with RawClient(bound["native_port"]) as client:
            client.produce("logs", b"x")
            assert client.fetch("logs") == (0, [b"x"])
        assert daemon.terminate() == ExitCode.DRAINED

    assert events_named(daemon, "starting")[0]["loop"] == "asyncio"


def test_given_nobody_reads_the_log_any_more_when_told_to_stop_then_it_drains(tmp_path):
    code = (
        "import os, sys; reader, writer = os.pipe(); os.dup2(writer, 2); os.close(reader)\n"
        "from broker.daemon import main; sys.exit(main(sys.argv[1:]))"
    )
    with daemon_process(tmp_path, code=code) as daemon:
        daemon.wait_ready()
        assert daemon.terminate() == ExitCode.DRAINED

    assert (tmp_path / "data" / CLEAN_MARKER).exists()


LOADED_WHEN_LISTENING = """
import sys
from broker import daemon
from broker.network import listener
start = listener.Listener.start
async def started(self):
    await start(self)
    print(*sorted(sys.modules))
    ours = [sys.modules[name] for name in sys.modules if name.startswith(("broker.", "protocol."))]
    classes = {one for module in ours for one in vars(module).values() if isinstance(one, type)}
    print(*sorted(one.__qualname__ for one in classes if "__dataclass_fields__" in vars(one)))
    sys.stdout.flush()
listener.Listener.start = started
sys.exit(daemon.main(sys.argv[1:]))
"""

LOADED_LATER = """
import sys, threading
from broker import composition, daemon
load = composition.import_with_breaks
def loaded(name):
    print(name, name in sys.modules)
    load(name)
    print(threading.current_thread().name, name in sys.modules, flush=True)
composition.import_with_breaks = loaded
sys.exit(daemon.main(sys.argv[1:]))
"""

NOT_FOR_THE_FIRST_CLIENTS = {
    *("rich", "typer", "click", "pygments"),
    *("aiohttp", "prometheus_client"),
    *("protocol.compressors", "cramjam", "lz4", "zstandard"),
    # crc32c stands for its __init__, which asks importlib.metadata for a version
    *("importlib.metadata", "importlib.resources", "crc32c", "email", "csv", "zipfile"),
    *("argparse", "gettext", "difflib", "tomllib", "broker.toml_lines"),
    *("encodings.idna", "stringprep", "http", "urllib.request", "tempfile", "multiprocessing"),
    *("concurrent.futures.process", "logging.handlers", "unittest", "xml"),
}
"""Modules that cost a start time; whoever needs one imports it where it is first used."""


def lines_printed_by(code, tmp_path, count):
    """The first lines of a daemon that `code` runs, which is then stopped."""
    ports = [f"{key}=0" for key in ("listeners.native_port", "listeners.kafka_port", "http.port")]
    settings = [*ports, f"storage.data_dirs={tmp_path / 'data'}"]
    settings.append("listeners.host=127.0.0.1")
    process = subprocess.Popen(
        [sys.executable, "-c", code, *(f"--set={one}" for one in settings)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    lines = [process.stdout.readline() for _ in range(count)]
    process.terminate()
    process.communicate(timeout=30)
    return lines


def test_given_serve_when_it_listens_then_nothing_is_loaded_that_clients_need_not_wait_for(
    tmp_path,
):
    modules, dataclasses = lines_printed_by(LOADED_WHEN_LISTENING, tmp_path, 2)

    loaded = set(modules.split())
    assert {"broker.composition", "asyncio"} <= loaded
    assert loaded & NOT_FOR_THE_FIRST_CLIENTS == set()
    assert [name for name in loaded if name.startswith("__editable__")] == []  # see pyproject.toml
    # A dataclass writes its methods as text and compiles them, 1 to 2 ms at each start.
    assert dataclasses == "\n"


def test_given_serve_when_it_is_ready_then_compression_is_loaded_beside_the_loop(tmp_path):
    before, after = lines_printed_by(LOADED_LATER, tmp_path, 2)

    assert before.split() == ["protocol.compressors", "False"]
    thread, is_loaded = after.split()
    assert thread.startswith("tidelog-request")
    assert is_loaded == "True"


def test_given_wrong_usage_when_started_then_it_is_code_2(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "broker", "--nonsense"], cwd=ROOT, capture_output=True, text=True
    )

    assert ended.returncode == ExitCode.USAGE
    assert "unrecognized arguments: --nonsense" in ended.stderr


def test_given_a_watchdog_when_running_then_systemd_sees_signs_of_life(tmp_path):
    environment = {"WATCHDOG_USEC": "200000"}
    with daemon_process(tmp_path, environment=environment) as daemon:
        daemon.wait_ready()

        assert daemon.told("WATCHDOG=1") == "WATCHDOG=1"


def test_given_exit_codes_when_documented_then_the_table_has_each():
    text = (Path(ROOT) / "docs/configuration.md").read_text()

    for code in ExitCode:
        assert f"\n| {int(code)} | " in text
    assert os.EX_OK == ExitCode.DRAINED
