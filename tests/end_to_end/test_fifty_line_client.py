"""docs/native-protocol.md against a real broker: its client runs, its bytes come back."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.native_wire import NativeWire
from tests.support.running_broker import BrokerProcess

PAGE = (Path(__file__).parents[2] / "docs/native-protocol.md").read_text()
CLIENT = re.search(r'^```python title="client.py"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE)[1]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker of its own, since the document says how its topics are called."""
    with BrokerProcess(tmp_path_factory.mktemp("documented")) as running:
        yield running


def example(title):
    """Return the bytes of one of the document's examples."""
    found = re.search(rf'^```hex title="{title}"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE)
    return bytes.fromhex("".join(line.partition(";")[0] for line in found[1].splitlines()))


def test_given_the_documents_client_when_run_as_it_is_then_it_prints_what_it_sent(broker, tmp_path):
    port = broker.address.rpartition(":")[2]
    program = tmp_path / "client.py"
    program.write_text(CLIENT.replace("port=9091", f"port={port}"))

    done = subprocess.run(
        [sys.executable, "-I", str(program)], capture_output=True, text=True, timeout=30
    )

    assert done.stderr == ""
    assert done.stdout == "[(0, b'hello'), (1, b'tide')]\n"


def test_given_the_documents_client_when_used_then_all_of_it_works(broker):
    names = {"__name__": "client"}
    exec(compile(CLIENT, "client.py", "exec"), names)
    host, _, port = broker.address.rpartition(":")
    client = names["Client"](host, int(port))
    values = [b"%d" % number for number in range(500)] + [b"", bytes(range(256))]

    client.create_topic("fifty", 3)
    base_offsets = [client.produce("fifty", 2, values), client.produce("fifty", 2, values[:3])]
    fetched = list(client.fetch("fifty", 2, 0))
    later = list(client.fetch("fifty", 2, 500))
    nothing = list(client.fetch("fifty", 1, 0, max_wait_ms=0))

    assert base_offsets == [0, 502]
    assert fetched == list(enumerate([*values, *values[:3]]))
    assert later == fetched[500:]
    assert nothing == []
    with pytest.raises(RuntimeError, match="error 36"):
        client.create_topic("fifty")
    with pytest.raises(RuntimeError, match="error 1"):
        list(client.fetch("fifty", 0, 1))
    client.socket.close()


def test_given_the_documents_bytes_when_sent_then_its_answers_come_to_the_byte(broker):
    with NativeWire(broker.address) as wire:
        for name in ("CREATE_TOPIC", "PRODUCE", "FETCH"):
            wire.send(example(f"{name} request"))

            answer = wire.receive()

            assert len(answer).to_bytes(4, "big") + answer == example(f"{name} answer"), name
