"""Real log files through a real broker: every format in, every format out, to the byte."""

from pathlib import Path

import pytest

from tests.support.command_line import call, run
from tests.support.native_wire import NativeWire
from tidelog.client import Client, Codec

FILES = sorted((Path(__file__).parents[1] / "data/loghub").glob("*.log"))
LINES_PER_REQUEST = 700


def split(data):
    """Return the lines, split at newlines only, and what has to follow the last one."""
    *lines, rest = data.split(b"\n")
    return (lines, b"\n") if rest == b"" else ([*lines, rest], b"")


def joined(lines, end):
    return b"\n".join(lines) + end


def test_given_the_log_files_when_looked_at_then_they_have_what_is_easily_lost():
    contents = [file.read_bytes() for file in FILES]

    assert len(contents) == 3
    assert all(b"\r\n" in data for data in contents)
    assert any(not data.endswith(b"\n") for data in contents)


@pytest.mark.parametrize("format_in", [0, 1, 2])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_given_a_log_file_when_produced_in_one_format_then_all_give_it_back(
    broker, file, format_in
):
    topic = f"{file.stem}-{format_in}"
    data = file.read_bytes()
    lines, end = split(data)

    with NativeWire(broker.address) as wire:
        for start in range(0, len(lines), LINES_PER_REQUEST):
            part = lines[start : start + LINES_PER_REQUEST]
            answer = wire.produce(topic, 0, part, format=format_in)
            assert (answer.error, answer.base_offset) == (0, start)
        fetched = [wire.fetch_values(topic, 0, format=format_out) for format_out in (0, 1, 2)]
        in_small_bites = wire.fetch_values(topic, 0, format=0, max_bytes=10_000)

    assert [joined(values, end) == data for values in fetched] == [True, True, True]
    assert joined(in_small_bites, end) == data


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_given_a_log_file_when_it_goes_through_the_client_then_every_format_gives_it_back(
    broker, codec
):
    topic = f"client-{codec.name}"
    data = FILES[0].read_bytes()
    lines, end = split(data)

    with Client(broker.address) as client:
        with client.producer(compression=codec, batch_bytes_max=40_000) as producer:
            for line in lines:
                producer.produce(topic, line)
        read = [message.value for message in client.messages(topic)]
    with NativeWire(broker.address) as wire:
        fetched = [wire.fetch_values(topic, 0, format=format_out) for format_out in (0, 1, 2)]

    assert joined(read, end) == data
    assert [joined(values, end) == data for values in fetched] == [True, True, True]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_given_a_log_file_when_it_goes_through_the_command_line_then_it_is_the_same(broker, file):
    topic = f"cli-{file.stem}"
    data = file.read_bytes()
    _, end = split(data)

    produced = call("produce", topic, str(file), "--broker", broker.address)
    consumed = call("consume", topic, "--broker", broker.address)

    assert (produced.code, consumed.code) == (0, 0)
    assert consumed.output.removesuffix(b"\n") + end == data


def test_given_a_pipeline_when_it_is_of_processes_then_the_file_comes_through(broker):
    data = FILES[0].read_bytes()
    _, end = split(data)
    environment = {"TIDELOG_BROKER": broker.address}

    produced = run("produce", "piped", "-", stdin=data, **environment)
    consumed = run("consume", "piped", **environment)

    assert (produced.code, consumed.code) == (0, 0)
    assert consumed.output.removesuffix(b"\n") + end == data
