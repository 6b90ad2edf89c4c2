"""`tidelog produce`, against a broker."""

import fcntl
import os
import pty
import signal
import struct
import termios

import pytest

from protocol.native.responses import (
    PartitionDescription,
    TopicDescription,
    encode_topics_response,
)
from tests.support.command_line import call, start
from tests.support.scripted_server import ScriptedServer
from tidelog.cli import lines
from tidelog.client import Client

DATA = b"one\ntwo\r\n\n\xff\x00\nlast without newline"
LINES = [b"one", b"two\r", b"", b"\xff\x00", b"last without newline"]


def stored(broker, topic):
    with Client(broker.address) as client:
        return list(client.messages(topic))


def values(broker, topic):
    return [message.value for message in stored(broker, topic)]


def test_given_lines_on_standard_input_when_produced_then_they_are_messages(broker, topic):
    outcome = call("produce", topic, stdin=DATA)

    assert outcome.code == 0
    assert outcome.output == b""
    assert outcome.errors.startswith(f"tidelog: 5 messages (29 B) to {topic} in ")
    assert values(broker, topic) == LINES


def test_given_a_file_when_produced_then_its_lines_are_messages(broker, topic, tmp_path):
    file = tmp_path / "some.log"
    file.write_bytes(DATA)

    outcome = call("produce", topic, str(file))

    assert outcome.code == 0
    assert values(broker, topic) == LINES


@pytest.mark.parametrize("data", [b"", b"\n"])
def test_given_almost_nothing_when_produced_then_a_missing_line_is_no_message(broker, topic, data):
    call("topics", "create", topic)

    outcome = call("produce", topic, stdin=data)

    assert outcome.code == 0
    assert values(broker, topic) == [b""] * data.count(b"\n")


def test_given_json_and_quiet_when_produced_then_the_summary_is_for_scripts(topic):
    outcome = call("produce", topic, "--json", "--quiet", stdin=b"a\nb\n")

    summary = outcome.json
    assert summary.pop("seconds") >= 0
    assert summary == {
        "topic": topic,
        "delivered": 2,
        "failed": 0,
        "bytes": 2,
        "partitions": [{"partition": 0, "first_offset": 0, "last_offset": 1}],
    }
    assert outcome.errors == ""


def test_given_a_key_separator_when_produced_then_the_first_one_divides(broker, topic):
    outcome = call("produce", topic, "--key-separator", r"\t", stdin=b"k\tv\tw\n\tx\n")

    assert outcome.code == 0
    assert [(m.key, m.value) for m in stored(broker, topic)] == [(b"k", b"v\tw"), (b"", b"x")]


def test_given_a_line_without_its_separator_when_produced_then_it_fails_alone(broker, topic):
    outcome = call("produce", topic, "--key-separator", ":", stdin=b"a:1\nb\nc:3\n")

    assert outcome.code == 1
    assert "tidelog: line 2: the key separator is not in it\n" in outcome.errors
    assert outcome.errors.endswith(", 1 failed\n")
    assert values(broker, topic) == [b"1", b"3"]


def test_given_a_message_that_is_too_large_when_produced_then_its_line_is_named(broker, topic):
    call("topics", "create", topic, "--set", "max.message.bytes=1000")

    outcome = call("produce", topic, "--batch-bytes", "100", stdin=b"a\n" + b"x" * 2000 + b"\nb\n")

    assert outcome.code == 1
    assert "line 2: " in outcome.errors
    assert "MESSAGE_TOO_LARGE" in outcome.errors
    assert values(broker, topic) == [b"a", b"b"]


def test_given_an_endless_line_when_produced_then_it_fails_and_the_rest_is_kept(
    broker, topic, monkeypatch
):
    monkeypatch.setattr(lines, "FRAME_BYTES_MAX", 1000)

    outcome = call("produce", topic, stdin=b"a\nb\n" + b"x" * lines.READ_BYTES)

    assert outcome.code == 1
    assert "line 3: it has more than 1000 bytes; what follows it was not read" in outcome.errors
    assert values(broker, topic) == [b"a", b"b"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_given_a_codec_when_produced_then_the_values_are_the_same(broker, topic, codec):
    outcome = call("produce", topic, "--compression", codec, stdin=DATA)

    assert outcome.code == 0
    assert values(broker, topic) == LINES


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_given_any_acks_when_produced_then_the_values_arrive(broker, topic, acks):
    call("topics", "create", topic)

    outcome = call("produce", topic, "--acks", acks, "--json", stdin=b"a\n")

    assert outcome.code == 0
    assert outcome.json["partitions"] == (
        [] if acks == "0" else [{"partition": 0, "first_offset": 0, "last_offset": 0}]
    )
    with Client(broker.address) as client:
        answer = client.fetch(topic, 0, 0, max_wait_ms=10_000)
    assert [message.value for message in answer.messages] == [b"a"]


def test_given_a_partition_when_produced_then_all_goes_there(broker, topic):
    call("topics", "create", topic, "--partitions", "3")

    outcome = call("produce", topic, "--partition", "2", stdin=b"a\nb\n")

    assert outcome.code == 0
    assert [(m.partition, m.offset) for m in stored(broker, topic)] == [(2, 0), (2, 1)]


def test_given_a_partition_that_is_not_there_when_produced_then_nothing_is_read(topic):
    call("topics", "create", topic, "--partitions", "3")

    outcome = call("produce", topic, "--partition", "3", stdin=b"a\n")

    assert outcome.code == 1
    assert outcome.errors == f"tidelog: {topic} has the partitions 0 to 2, but no 3\n"


def test_given_an_illegal_name_when_produced_then_it_is_refused_at_once(topic):
    outcome = call("produce", "no/topic", stdin=b"a\n")

    assert outcome.code == 1
    assert "is not legal" in outcome.errors
    assert outcome.errors.count("\n") == 1


def test_given_no_such_file_when_produced_then_it_is_named(topic, tmp_path):
    outcome = call("produce", topic, str(tmp_path / "missing.log"))

    assert outcome.code == 1
    assert outcome.errors == f"tidelog: {tmp_path / 'missing.log'}: No such file or directory\n"


@pytest.mark.parametrize("options", [["--partition", "0"], []])
def test_given_a_broker_that_went_away_when_time_is_up_then_every_line_is_told_of(options):
    partition = PartitionDescription(0, 0, 0, 0, 0)
    described = encode_topics_response(0, [TopicDescription(b"t", 0, [partition])])
    with ScriptedServer(lambda number, frame: None if number else described) as server:
        address = server.address
        options = [*options, "--broker", address, "--timeout", "0.1"]

        outcome = call("produce", "t", *options, stdin=b"a\nb\n")

    reason = f"cannot reach the broker: {address}: the broker closed the connection"
    assert outcome.code == 1
    assert outcome.errors.splitlines()[:2] == [
        f"tidelog: line 1: {reason}",
        f"tidelog: line 2: {reason}",
    ]
    assert "0 messages (0 B) to t in " in outcome.errors
    assert outcome.errors.endswith(", 2 failed\n")


def test_given_a_pipe_that_goes_on_when_a_line_comes_then_it_is_sent_at_once(broker, topic):
    process = start("produce", topic)
    process.stdin.write(b"first\nhalf of ")
    process.stdin.flush()

    first = wait_for_message(broker, topic, 0)
    process.stdin.write(b"a line\n")
    process.stdin.flush()
    second = wait_for_message(broker, topic, 1)
    _, errors = process.communicate(timeout=30)

    assert (first, second) == (b"first", b"half of a line")
    assert process.returncode == 0
    assert b"2 messages" in errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_given_a_signal_when_it_comes_then_what_was_read_is_sent(broker, topic, number, code):
    process = start("produce", topic, "--linger-ms", "60000")
    process.stdin.write(b"read\nand sent\nhalf a line")
    process.stdin.flush()
    wait_until_read(process.stdin)

    process.send_signal(number)
    _, errors = process.communicate(timeout=30)

    assert process.returncode == code
    assert b"3 messages" in errors
    assert b"Traceback" not in errors
    assert values(broker, topic) == [b"read", b"and sent", b"half a line"]


def test_given_a_terminal_when_produced_then_a_bar_is_shown_there(topic, tmp_path):
    file = tmp_path / "some.log"
    file.write_bytes(b"a line\n" * 10)
    terminal, standard_error = pty.openpty()

    process = start("produce", topic, str(file), stderr=standard_error)
    os.close(standard_error)
    output, _ = process.communicate(timeout=30)
    shown = read_terminal(terminal)

    assert process.returncode == 0
    assert output == b""
    assert b"70/70 bytes" in shown
    assert b"10 messages (60 B)" in shown  # newlines are no part of messages


def wait_for_message(broker, topic, offset):
    """Return the value at `offset`, once it is there; the topic too may have to be made first."""
    with Client(broker.address) as client:
        while client.topics(topic)[0].error:
            pass
        return client.fetch(topic, 0, offset, max_wait_ms=30_000).messages[0].value


def wait_until_read(pipe):
    """Return once the other side has taken everything out of a pipe."""

    while struct.unpack("i", fcntl.ioctl(pipe.fileno(), termios.FIONREAD, b"\0" * 4))[0]:
        pass


def read_terminal(descriptor):
    shown = b""
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # EIO: nobody has the other side open
            break
        if not piece:
            break
        shown += piece
    os.close(descriptor)
    return shown
