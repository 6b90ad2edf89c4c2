"""Jobs for worker processes: functions of a module that is quick to import."""

import os
import signal
import socket
import sys
from pathlib import Path

import structlog

from broker.worker_job import progress, should_stop
from protocol.errors import BatchCorruptError


def add(one, other):
    return one + other


def count_to(number):
    for each in range(number):
        progress(each)
    return number


def refuse(position):
    raise BatchCorruptError(position, "as the test wants it")


def give_back_a_socket():
    return socket.socket()


def say(event):
    structlog.get_logger("tidelog.job").warning(event, count=3, path=Path("/a"))


def run_until_told():
    progress(os.getpid())
    while not should_stop():
        pass
    return "stopped"


def run_for_ever():
    progress(os.getpid())
    while True:
        pass


def about_the_process():
    descriptors = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")
                   if os.path.lexists(f"/proc/self/fd/{each}")]  # fmt: skip
    main = sys.modules["__main__"].__spec__
    ignored = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    return os.getpid(), os.nice(0), descriptors, main.name, ignored
