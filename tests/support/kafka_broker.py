"""A broker without sockets, threads, disk or time: what Kafka requests get for an answer.

    with KafkaBroker() as broker:
        broker.create_topic("logs", 3)
        answer = broker.answer(MetadataRequest(topics=None), 13)

A request goes through the codec and a session, as it would from a connection, and so does its
answer. Beside that it is a `NativeBroker`: its disk, clock, threads and topics are the test's.
"""

from __future__ import annotations

from typing import Any, Final

from broker.kafka_api.kafka_api import KafkaApi
from broker.network.answers import Answer, PendingResponse
from protocol.kafka.apis import APIS, Api
from protocol.kafka.codec import decode_response, encode_request
from protocol.kafka.message import Struct
from tests.support.manual_loop import InlineExecutor
from tests.support.native_broker import FakeConnection, NativeBroker, Sent

CLUSTER_ID: Final = "tidelogTestCluster0000"
ADVERTISED: Final = ("broker.test", 19_092)
_API_OF: Final = {api.request: api for api in APIS.values()}
"""APIs by the class of their requests."""


class KafkaSent(Sent):
    """One request of the Kafka protocol and what became of it."""

    def __init__(self, answer: Answer, api: Api, version: int, correlation_id: int) -> None:
        super().__init__(answer)
        self._api, self._version, self._correlation_id = api, version, correlation_id

    @property
    def response(self) -> Any:
        """The decoded answer; its size and correlation id must be right."""
        correlation_id, response = decode_response(self._api, self._version, memoryview(self.frame))
        assert correlation_id == self._correlation_id
        return response


class KafkaBroker(NativeBroker):
    """Args as `NativeBroker`'s; `kafka` is the broker's side of the Kafka protocol."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kafka = KafkaApi(
            self.manager,
            config=self.config,
            loop=self.loop,
            clock=self.clock,
            executor=self.jobs if options.get("hold_threads") else InlineExecutor(),
            metrics=self.metrics,
            maps_slices=False,
            cluster_id=CLUSTER_ID,
            advertised=ADVERTISED,
        )
        self.kafka_session = self.kafka.session(self.connection)  # type: ignore[arg-type]
        self._correlation_id = 0

    def __enter__(self) -> KafkaBroker:
        self.open()
        return self

    def ask(
        self,
        request: Struct,
        version: int | None = None,
        *,
        settle: bool = True,
        client_id: str | None = "tests",
        connection: FakeConnection | None = None,
    ) -> KafkaSent:
        """Send a request, in the newest version unless told; with `settle` the loop comes to rest.

        Raises:
            FrameError: the session would close the connection.
        """
        api = _API_OF[type(request)]
        chosen = api.last_version if version is None else version
        self._correlation_id += 1
        data = encode_request(api, chosen, self._correlation_id, client_id, request)
        frame = memoryview(bytearray(data)[4:])
        peer: Any = self.connection if connection is None else connection
        session = self.kafka_session if connection is None else self.kafka.session(peer)
        answer, _, position = session.handle_frames(frame, 0, len(frame), len(frame), peer)
        assert position == len(frame)
        if isinstance(answer, PendingResponse):
            answer.attach(peer)
            peer.waiting.append(answer)
        frame[:] = b"\xee" * len(frame)  # its memory serves the next request now
        sent = KafkaSent(answer, api, chosen, self._correlation_id)
        if settle:
            self.loop.settle()
        return sent

    def answer(self, request: Struct, version: int | None = None) -> Any:
        """Return the decoded answer to a request that needs no time to pass."""
        return self.ask(request, version).response

    def kafka_errors(self, api_name: str) -> dict[int, int]:
        """How often an API has answered which error code, as the metrics say."""
        return dict(self.metrics.requests("kafka", api_name).errors)
