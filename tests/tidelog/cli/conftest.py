"""What several tests of the command line need."""

import itertools
import socket

import pytest

_numbers = itertools.count()


@pytest.fixture
def free_port():
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.fixture
def topic(broker, monkeypatch):
    """The name of a topic that no other test has; commands of the test ask the shared broker."""
    monkeypatch.setenv("TIDELOG_BROKER", broker.address)
    return f"topic-{next(_numbers)}"
