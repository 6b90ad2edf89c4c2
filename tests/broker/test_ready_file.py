"""The file that says that the daemon serves, and where."""

import json
import os

from broker.ready_file import remove_ready_file, write_ready_file


def test_given_addresses_when_written_then_they_are_json_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "ready"

    write_ready_file(path, {"native": ["127.0.0.1:1", "[::1]:1"], "http": []})

    assert json.loads(path.read_text()) == {
        "pid": os.getpid(),
        "native_port": 1,
        "native": ["127.0.0.1:1", "[::1]:1"],
        "http_port": 0,
        "http": [],
    }
    assert list(tmp_path.iterdir()) == [path]


def test_given_an_old_file_when_written_then_it_is_replaced(tmp_path):
    path = tmp_path / "ready"
    path.write_text("old and longer than what comes" * 10)

    write_ready_file(path, {})

    assert json.loads(path.read_text()) == {"pid": os.getpid()}


def test_given_a_file_when_removed_twice_then_it_is_gone_and_no_error(tmp_path):
    path = tmp_path / "ready"
    write_ready_file(path, {})

    remove_ready_file(path)
    remove_ready_file(path)

    assert list(tmp_path.iterdir()) == []
