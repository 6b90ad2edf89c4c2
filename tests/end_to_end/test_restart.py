"""A broker that is killed and comes back: those who stand at a pipe go on by themselves."""

import signal

from tests.support.command_line import start
from tests.support.running_broker import BrokerProcess
from tidelog.client import Client


def test_given_pipes_when_the_broker_is_killed_and_started_then_they_go_on(tmp_path):
    with BrokerProcess(tmp_path, "http.enabled=false") as broker:
        with Client(broker.address) as client:
            client.create_topic("t", 2)
        producing = start("produce", "t", "--broker", broker.address)
        following = start("consume", "t", "--follow", "--broker", broker.address)
        write(producing, b"before\n")
        before = following.stdout.readline()

        broker.kill()
        write(producing, b"meanwhile\n")
        broker.start()
        meanwhile = following.stdout.readline()
        write(producing, b"after\n")
        after = following.stdout.readline()

        _, said = producing.communicate(timeout=30)
        following.send_signal(signal.SIGINT)
        rest, errors = following.communicate(timeout=30)

    assert [before, meanwhile, after] == [b"before\n", b"meanwhile\n", b"after\n"]
    assert (producing.returncode, following.returncode) == (0, 130)
    assert b"3 messages" in said
    assert (rest, errors) == (b"", b"")


def write(process, data):
    process.stdin.write(data)
    process.stdin.flush()
