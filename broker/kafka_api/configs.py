"""ConfigsHandler: DescribeConfigs and ListConfigResources: settings of topics and of the broker."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from broker.kafka_api.broker_settings import broker_entries
from broker.kafka_api.call import Call
from broker.kafka_api.refusal import reason_of
from broker.kafka_settings import ConfigEntry, ConfigSource, topic_entries
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.errors import InvalidRequestError, TidelogError
from protocol.kafka.configs import (
    ConfigResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from protocol.stored.file_names import check_topic_name

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi

RESOURCES_PER_STEP: Final = 10
"""A tenth of a millisecond each."""
CONFIG_BYTES: Final = 24
"""Of one setting in an answer, and of one of its synonyms, beside their texts: at most so much."""


class ResourceType(IntEnum):
    """What has settings, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigsHandler:
    """Describes settings; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._manager = server, server.manager

    # --- DescribeConfigs ------------------------------------------------------------------------

    def describe_configs(
        self, request: DescribeConfigsRequest, call: Call
    ) -> DescribeConfigsResponse | PendingResponse:
        """Handle a DescribeConfigs."""
        return call.answer(self._describe(request, call))

    def _describe(
        self, request: DescribeConfigsRequest, call: Call
    ) -> Steps[DescribeConfigsResponse]:
        response = DescribeConfigsResponse()
        left_bytes = self._server.limits.fetch_response_bytes_max
        for number, resource in enumerate(request.resources, 1):
            result = DescribeConfigsResult(0, None, resource.resource_type, resource.resource_name)
            response.results.append(result)
            try:
                for entry in self._entries(resource):
                    config = _config(entry, resource.resource_type, request)
                    result.configs.append(config)
                    left_bytes -= _size_bytes(config)
                if left_bytes < 0:
                    raise InvalidRequestError("the answer gets too large: ask for less at a time")
            except TidelogError as error:
                result.configs = []
                result.error_code = call.count_error(error.code)
                result.error_message = reason_of(error)
            if not number % RESOURCES_PER_STEP:
                yield None
        return response

    def _entries(self, resource: DescribeConfigsResource) -> list[ConfigEntry]:
        """Return the settings of a resource that are asked for.

        Raises:
            InvalidTopicError, UnknownTopicOrPartitionError: there can be, or is, no such topic.
            InvalidRequestError: another resource that has no settings.
        """
        name, keys = resource.resource_name, resource.configuration_keys
        entries: Iterable[ConfigEntry]
        if resource.resource_type == ResourceType.TOPIC:
            topic = self._manager.topic(check_topic_name(name))
            store = self._manager.store
            entries = topic_entries(topic.settings, store.config_of(name), store.defaults)
        elif resource.resource_type == ResourceType.BROKER:
            self._check_broker(name)
            entries = broker_entries(self._server) if name else ()
        else:
            raise unsupported(resource.resource_type)
        return [each for each in entries if not keys or each.setting.name in keys]

    def _check_broker(self, name: str) -> None:
        node_id = str(self._server.node_id)
        if name not in ("", node_id):
            raise InvalidRequestError(f"there is no broker {name[:100]!r}, only {node_id}")

    # --- ListConfigResources --------------------------------------------------------------------

    def list_config_resources(
        self, request: ListConfigResourcesRequest, call: Call
    ) -> ListConfigResourcesResponse:
        """Handle a ListConfigResources: what DescribeConfigs can describe.

        In version 0 it lists client metrics: there are none.
        """
        if call.version == 0:
            return ListConfigResourcesResponse()
        kinds = set(request.resource_types) or set(ResourceType)
        if not kinds <= set(ResourceType):
            error = call.count_error(ErrorCode.UNSUPPORTED_VERSION)
            return ListConfigResourcesResponse(error_code=error)
        response = ListConfigResourcesResponse()
        if ResourceType.TOPIC in kinds:
            response.config_resources += [
                ConfigResource(topic.name, ResourceType.TOPIC) for topic in self._manager.topics()
            ]
        if ResourceType.BROKER in kinds:
            broker = ConfigResource(str(self._server.node_id), ResourceType.BROKER)
            response.config_resources.append(broker)
        return response


def unsupported(resource_type: int) -> InvalidRequestError:
    """Return the error for a resource that has no settings here."""
    try:
        name = ResourceType(resource_type).name
    except ValueError:
        return InvalidRequestError(f"there are no resources of type {resource_type}")
    return InvalidRequestError(f"{name} resources have no settings on this broker")


def _config(
    entry: ConfigEntry, resource_type: int, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    setting = entry.setting
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=entry.value,
        read_only=resource_type == ResourceType.BROKER,
        config_source=entry.source,
        is_default=entry.source == ConfigSource.DEFAULT,
        synonyms=[DescribeConfigsSynonym(*each) for each in synonyms],
        config_type=setting.type,
        documentation=setting.documentation if request.include_documentation else None,
    )


def _size_bytes(config: DescribeConfigsResourceResult) -> int:
    texts = len(config.name) + len(config.value or "") + len(config.documentation or "")
    synonyms = sum(
        CONFIG_BYTES + len(each.name) + len(each.value or "") for each in config.synonyms
    )
    return CONFIG_BYTES + texts + synonyms
