"""A member of a group in a process of its own, so that a test can let it crash.

Arguments: the client's name, the broker's address, topic, group. Says on standard output, as lines
of JSON, which partitions it has (`{"assigned": [0, 1]}`) and what it reads (`{"read": [0, 17]}`,
partition and offset). Leaves the group when its standard input ends.
"""

from __future__ import annotations

import json
import sys
import threading

from tests.clients.adapters.all import CLIENTS

name, address, topic, group = sys.argv[1:]
over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201


CLIENTS[name](address).follow(
    topic,
    group,
    assigned=lambda partitions: say(assigned=sorted(partitions)),
    received=lambda partition, offset: say(read=[partition, offset]),
    is_over=over.is_set,
)
