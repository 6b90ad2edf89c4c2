"""TopicsHandler: CreateTopics and DeleteTopics.

Both answer when what they did is durable, and no later request of the client overtakes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.kafka_api.assignments import check_assignments
from broker.kafka_api.call import Call
from broker.kafka_api.changes import Change, carry_out, in_turns
from broker.kafka_api.refusal import (
    InvalidReplicationFactorError,
    UnknownTopicIdError,
    reason_of,
)
from broker.kafka_settings import topic_entries
from broker.network.answers import PendingResponse
from broker.topic_checks import check_new_name
from broker.topic_settings import log_config
from protocol.error_codes import ErrorCode
from protocol.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidRequestError,
    RequestTimedOutError,
    TidelogError,
)
from protocol.kafka.codec import encode_part
from protocol.kafka.message import NO_UUID
from protocol.kafka.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi

BY_DEFAULT: Final = -1
TOPICS_WITH_CONFIGS_MAX: Final = 1_000
"""Of one answer: their settings take two kilobytes each. Those of the others can be asked for."""
NAMES_IN_STATES_FROM_VERSION: Final = 6
"""DeleteTopics names topics by id or name from here on."""


class TopicsHandler:
    """Makes and deletes topics; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._manager = server, server.manager

    # --- CreateTopics ---------------------------------------------------------------------------

    def create_topics(self, request: CreateTopicsRequest, call: Call) -> PendingResponse:
        """Handle a CreateTopics."""
        return call.later(self._create_topics(request, call))

    async def _create_topics(
        self, request: CreateTopicsRequest, call: Call
    ) -> CreateTopicsResponse | DeleteTopicsResponse:
        times = Counter(topic.name for topic in request.topics)
        response = CreateTopicsResponse()
        changes: list[Change] = []
        results: list[CreatableTopicResult] = []
        async for topic in in_turns({each.name: each for each in request.topics}.values()):
            result = CreatableTopicResult(topic.name, error_message=None)
            response.topics.append(result)
            try:
                if times[topic.name] > 1:
                    raise InvalidRequestError("the topic is named twice")
                # First: who makes sure of a topic wants to hear that it is there, whatever
                # else is asked for, such as three replicas.
                check_new_name(self._manager.store, topic.name)
                count = self._partition_count(topic)
                settings = _settings(topic.configs)
                checked = self._manager.check_new_topic(topic.name, count, settings)
            except TidelogError as error:
                _fail(result, error, call)
                continue
            if request.validate_only:
                self._describe(result, count, checked, len(response.topics), call)
            else:
                number = len(response.topics)
                changes.append(partial(self._create, result, count, checked, number, call))
                results.append(result)
        if not changes:
            return response
        return await self._carry_out(changes, results, response, request.timeout_ms, call)

    def _partition_count(self, topic: CreatableTopic) -> int:
        """Return how many partitions are wanted, in numbers or by assignments.

        Raises:
            InvalidRequestError, InvalidReplicaAssignmentError, InvalidReplicationFactorError,
            InvalidPartitionsError: there can be none such.
        """
        count, factor = topic.num_partitions, topic.replication_factor
        if topic.assignments:
            if factor != BY_DEFAULT or count != BY_DEFAULT:
                text = "with assignments, partitions and replication factor are to be -1"
                raise InvalidRequestError(text)
            numbers = [each.partition_index for each in topic.assignments]
            brokers = [each.broker_ids for each in topic.assignments]
            return check_assignments(numbers, brokers, self._server.node_id)
        if factor not in (BY_DEFAULT, 1):
            text = f"a replication factor of {factor} is not possible: there is one broker"
            raise InvalidReplicationFactorError(text)
        if count == BY_DEFAULT:
            return self._manager.topics_config.default_partitions
        if count < 1:
            raise InvalidPartitionsError(f"a topic cannot have {count} partitions")
        return count

    async def _create(
        self,
        result: CreatableTopicResult,
        count: int,
        settings: dict[str, str],
        number: int,
        call: Call,
    ) -> None:
        try:
            await self._manager.create_topic(result.name, count, settings)
            result.topic_id = self._manager.topic(result.name).topic_id.bytes
        except TidelogError as error:
            _fail(result, error, call)
        else:
            self._describe(result, count, settings, number, call)

    def _describe(
        self,
        result: CreatableTopicResult,
        count: int,
        settings: dict[str, str],
        number: int,
        call: Call,
    ) -> None:
        """Say what the topic is like; `number` is its place among those of the request."""
        defaults = self._manager.store.defaults
        result.num_partitions, result.replication_factor = count, 1
        if number > TOPICS_WITH_CONFIGS_MAX:
            result.configs, result.topic_config_error_code = None, ErrorCode.INVALID_REQUEST
            return
        configs: list[Any] = []  # encoded here: at the end, a thousand topics' would take a while
        for entry in topic_entries(settings, log_config(settings, defaults), defaults):
            config = CreatableTopicConfigs(
                entry.setting.name, entry.value, config_source=entry.source
            )
            configs.append(encode_part(call.api, call.version, config))
        result.configs = configs

    # --- DeleteTopics ---------------------------------------------------------------------------

    def delete_topics(self, request: DeleteTopicsRequest, call: Call) -> PendingResponse:
        """Handle a DeleteTopics."""
        return call.later(self._delete_topics(request, call))

    async def _delete_topics(
        self, request: DeleteTopicsRequest, call: Call
    ) -> CreateTopicsResponse | DeleteTopicsResponse:
        asked = request.topics
        if call.version < NAMES_IN_STATES_FROM_VERSION:
            asked = [DeleteTopicState(name) for name in request.topic_names]
        times = Counter((each.name, each.topic_id) for each in asked)
        response = DeleteTopicsResponse()
        found: list[DeletableTopicResult] = []
        async for name, topic_id in in_turns(times):
            result = DeletableTopicResult(name, topic_id)
            response.responses.append(result)
            try:
                if times[name, topic_id] > 1:
                    raise InvalidRequestError("the topic is named twice")
                self._look_up(result)
            except TidelogError as error:
                _fail(result, error, call)
            else:
                found.append(result)
        results: list[DeletableTopicResult] = []
        ways = Counter(result.topic_id for result in found)
        for result in found:
            if ways[result.topic_id] > 1:  # as in Kafka: neither is meant for sure
                _fail(result, InvalidRequestError("the topic is named by name and by id"), call)
            else:
                results.append(result)
        if not results:
            return response
        changes = [partial(self._delete, result, call) for result in results]
        return await self._carry_out(changes, results, response, request.timeout_ms, call)

    def _look_up(self, result: DeletableTopicResult) -> None:
        """Complete name and id by each other.

        Raises:
            InvalidRequestError: both or none are given.
            UnknownTopicIdError, UnknownTopicOrPartitionError: it is unknown.
        """
        has_id = result.topic_id != NO_UUID
        if has_id == (result.name is not None):
            text = "a topic is to be named by its name or by its id, not by both"
            raise InvalidRequestError(text)
        if has_id:
            name = self._manager.topic_names_by_id.get(result.topic_id)
            if name is None:
                raise UnknownTopicIdError
            result.name = name.decode("ascii")
        elif result.name is not None:
            result.topic_id = self._manager.topic(result.name).topic_id.bytes

    async def _delete(self, result: DeletableTopicResult, call: Call) -> None:
        assert result.name is not None, "looked up"
        try:
            if self._manager.topic(result.name).topic_id.bytes != result.topic_id:
                raise UnknownTopicIdError  # deleted and made again, while this waited its turn
            await self._manager.delete_topic(result.name)
        except TidelogError as error:
            _fail(result, error, call)

    # --- both -----------------------------------------------------------------------------------

    async def _carry_out(
        self,
        changes: Sequence[Change],
        results: Sequence[CreatableTopicResult | DeletableTopicResult],
        response: CreateTopicsResponse | DeleteTopicsResponse,
        timeout_ms: int,
        call: Call,
    ) -> CreateTopicsResponse | DeleteTopicsResponse:
        done = await carry_out(call, changes, timeout_ms)
        for result in results[done:]:
            _fail(result, RequestTimedOutError("it goes on, and may yet be done"), call)
        return response


def _settings(configs: Sequence[CreatableTopicConfig]) -> dict[str, str]:
    """Return settings by name.

    Raises:
        InvalidConfigError: one is given twice, or has no value.
    """
    settings: dict[str, str] = {}
    for config in configs:
        if config.value is None:
            raise InvalidConfigError(f"{config.name[:100]} has no value")
        if config.name in settings:
            raise InvalidConfigError(f"{config.name[:100]} is given twice")
        settings[config.name] = config.value
    return settings


def _fail(
    result: CreatableTopicResult | DeletableTopicResult, error: TidelogError, call: Call
) -> None:
    result.error_code = call.count_error(error.code)
    result.error_message = reason_of(error)
