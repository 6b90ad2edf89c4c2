"""What systemd is told (sd_notify(3)), and that its absence is no trouble."""

import os
import socket

import pytest

from broker.sd_notify import SystemdNotifier


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    """Yield a socket such as systemd's, and its name as in NOTIFY_SOCKET."""
    name = str(tmp_path / "n") if request.param == "path" else f"@tidelog-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        receiver.settimeout(5)
        yield receiver, name


def test_given_systemd_when_states_change_then_it_is_told_each_in_a_datagram(systemd):
    receiver, name = systemd
    notifier = SystemdNotifier({"NOTIFY_SOCKET": name})

    notifier.ready("listening")
    notifier.watchdog()
    notifier.reloading()
    notifier.stopping("draining")

    assert receiver.recv(1000) == b"READY=1\nSTATUS=listening"
    assert receiver.recv(1000) == b"WATCHDOG=1"
    assert receiver.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    assert receiver.recv(1000) == b"STOPPING=1\nSTATUS=draining"


def test_given_no_systemd_when_told_then_nothing_happens():
    notifier = SystemdNotifier({})

    notifier.ready("listening")

    assert notifier.watchdog_interval_s is None


def test_given_a_socket_that_is_gone_when_told_then_it_is_no_error(tmp_path):
    notifier = SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})

    notifier.ready("listening")

    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("variables", "interval_s"),
    [
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({}, None),
    ],
)
def test_given_a_watchdog_when_asked_then_signs_come_twice_as_often(variables, interval_s):
    notifier = SystemdNotifier({"NOTIFY_SOCKET": "/nowhere", **variables})

    assert notifier.watchdog_interval_s == interval_s
