"""docs/native-protocol.md: its example, its tables and its client hold against the codec."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.error_codes import ErrorCode
from protocol.errors import FrameError
from protocol.native import requests, responses, topic_changes
from protocol.native.frame_reader import FrameReader
from protocol.native.request_types import ACKS_ALL, MessageFormat, RequestType
from protocol.simple_message_set import build_set

PAGE = Path(__file__).resolve().parents[3] / "docs" / "native-protocol.md"
SPECIFICATION = PAGE.read_text(encoding="utf-8")

VALUES = [b"hello", b"tide"]
SET = build_set(VALUES, format=MessageFormat.SIMPLE_0)
SENT_SET = b"".join(build_set([value], format=MessageFormat.SIMPLE_0) for value in VALUES)

# What each block of the example must be, from the values that the text tells.
EXAMPLE: dict[str, bytes] = {
    "CREATE_TOPIC request": requests.encode_create_topic("logs", 1, {"retention.ms": "86400000"}),
    "CREATE_TOPIC answer": responses.encode_status_response(0),
    "PRODUCE request": b"".join(
        requests.encode_produce("logs", 0, ACKS_ALL, 30_000, MessageFormat.SIMPLE_0, SENT_SET)
    ),
    "PRODUCE answer": responses.encode_produce_response(0, 0, -1, 2),
    "FETCH request": requests.encode_fetch("logs", 0, 0, 1 << 20, 1, 500, MessageFormat.SIMPLE_0),
    "FETCH answer": b"".join(responses.message_set_send(0, [SET])),
    "ALTER_TOPIC request": topic_changes.encode_alter_topic("logs", {"retention.ms": ""}),
    "ALTER_TOPIC answer": responses.encode_status_response(0),
    "DELETE_RECORDS request": topic_changes.encode_delete_records("logs", [(0, 1)]),
    "DELETE_RECORDS answer": topic_changes.encode_delete_records_response(0, [(0, 0, 1)]),
}


def blocks(language: str) -> dict[str, str]:
    """The page's code blocks with a title, by their titles."""
    pattern = rf'^```{language} title="([^"]+)"\n(.*?)^```$'
    return dict(re.findall(pattern, SPECIFICATION, re.DOTALL | re.MULTILINE))


def bytes_of(block: str) -> bytes:
    return bytes.fromhex("".join(line.split(";")[0] for line in block.splitlines()))


def table(first_header: str) -> list[list[str]]:
    """The rows of the page's table whose first column has this header, header row first."""
    rows = re.search(rf"^\| {first_header} \|.*?(?=^$)", SPECIFICATION, re.DOTALL | re.MULTILINE)
    assert rows is not None
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows[0].splitlines()]
    return [cells[0], *cells[2:]]


@pytest.mark.parametrize("title", EXAMPLE)
def test_given_the_examples_bytes_when_read_then_they_are_the_codecs(title: str) -> None:
    written = bytes_of(blocks("hex")[title])

    assert written.hex() == EXAMPLE[title].hex()


def test_given_the_example_when_listed_then_every_block_is_checked() -> None:
    assert list(blocks("hex")) == list(EXAMPLE)


def test_given_the_table_of_requests_when_compared_then_types_and_numbers_agree() -> None:
    documented = {int(row[0]): row[1] for row in table("type")[1:] if row[0].isdigit()}

    assert documented == {t.value: t.name for t in RequestType}


def test_given_the_table_of_errors_when_compared_then_names_and_retries_agree() -> None:
    rows = table("code")[1:]

    assert [int(row[0]) for row in rows] == sorted(int(row[0]) for row in rows)
    for number, name, again, *cells in rows:
        code = ErrorCode(int(number))
        assert code.name == name
        assert again == ("yes" if code.retriable else "no")
        assert set(cells) <= {"", "x", "o"}
        assert "x" in cells
        assert f"\n- **{number}**:" in SPECIFICATION  # each has its causes told


def test_given_the_client_when_counted_then_it_has_fifty_lines_and_two_imports() -> None:
    client = blocks("python")["client.py"]
    lines = [line for line in client.splitlines() if line.strip()]

    assert len(lines) <= 50
    assert re.findall(r"^(?:import|from) .*", client, re.MULTILINE) == [
        "import socket",
        "import struct",
    ]


class ScriptedBroker:
    """Answers one connection's requests by the codec; keeps what it was told."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.values: list[bytes] = []
        self.created: list[tuple[bytes, int, list[tuple[str, str]]]] = []
        self._answers: dict[int, Callable[[memoryview], list[Any]]] = {
            RequestType.CREATE_TOPIC: self._create_topic,
            RequestType.PRODUCE: self._produce,
            RequestType.FETCH: self._fetch,
        }
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(timeout=10)
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        reader = FrameReader(1 << 20)
        with connection:
            while data := connection.recv(1 << 16):
                reader.feed(data)
                while (frame := reader.next_frame()) is not None:
                    answer = self._answers[requests.decode_type(frame)](frame)
                    connection.sendall(b"".join(answer))

    def _create_topic(self, frame: memoryview) -> list[Any]:
        self.created.append(requests.decode_create_topic(frame))
        return [responses.encode_status_response(0)]

    def _produce(self, frame: memoryview) -> list[Any]:
        topic, partition, acks, _, message_format, message_set = requests.decode_produce(frame)
        if (topic, partition, acks, message_format) != (b"logs", 0, -1, 0):
            raise FrameError("not what the client was told to send")
        assert bytes(message_set) == SENT_SET
        self.values += VALUES
        return [responses.encode_produce_response(0, 0, -1, 2)]

    def _fetch(self, frame: memoryview) -> list[Any]:
        topic, _, offset, *_ = requests.decode_fetch(frame)
        if topic != b"logs":
            return responses.message_set_send(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        rest = build_set(self.values[offset:], format=0, first_offset=offset)
        return responses.message_set_send(0, [rest])


def test_given_the_fifty_line_client_when_run_then_it_speaks_the_protocol() -> None:
    names: dict[str, Any] = {"__name__": "client"}
    exec(compile(blocks("python")["client.py"], str(PAGE), "exec"), names)
    broker = ScriptedBroker()
    client = names["Client"]("127.0.0.1", broker.port)

    try:
        client.create_topic("logs", 3)
        base_offset = client.produce("logs", 0, VALUES)
        both = list(client.fetch("logs", 0, base_offset))
        second = list(client.fetch("logs", 0, 1))
        with pytest.raises(RuntimeError, match="error 3"):
            list(client.fetch("absent", 0, 0))
    finally:
        client.stream.close()
        client.socket.close()
        broker.close()

    assert broker.created == [(b"logs", 3, [])]
    assert base_offset == 0
    assert both == [(0, b"hello"), (1, b"tide")]
    assert second == [(1, b"tide")]
