"""ConfigsHandler: DescribeConfigs and ListConfigResources: settings of topics and of the broker."""

from __future__ import annotations

from collections.abc import Container, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from broker.kafka_api.broker_settings import broker_entries
from broker.kafka_api.call import Call
from broker.kafka_api.refusal import reason_of
from broker.kafka_settings import ConfigEntry, ConfigSource, topic_entries
from broker.network.answers import PendingResponse
from broker.steps import Steps
from protocol.error_codes import ErrorCode
from protocol.errors import InvalidRequestError, TidelogError
from protocol.kafka.codec import encode_part
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

RESOURCES_PER_STEP: Final = 5
"""A third of a millisecond each, with synonyms and documentation; the broker's own half of one."""
NAMES_PER_STEP: Final = 1_000
"""A microsecond each."""


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
            try:
                for entry in self._entries(resource):
                    result.configs.append(_config(entry, resource.resource_type, request))
                encoded: Any = encode_part(call.api, call.version, result)
                if len(encoded) > left_bytes:
                    raise InvalidRequestError("the answer gets too large: ask for less at a time")
            except TidelogError as error:
                result.configs = []
                result.error_code = call.count_error(error.code)
                result.error_message = reason_of(error)
                encoded = encode_part(call.api, call.version, result)
            left_bytes -= len(encoded)
            # At the end there is nothing left to do but join: the answer may be megabytes.
            response.results.append(encoded)
            if not number % RESOURCES_PER_STEP:
                yield None
        return response

    def _entries(self, resource: DescribeConfigsResource) -> list[ConfigEntry]:
        """Return the settings of a resource that are asked for.

        Raises:
            InvalidTopicError, UnknownTopicOrPartitionError: there can be, or is, no such topic.
            InvalidRequestError: another resource that has no settings.
        """
        name, keys = resource.resource_name, frozenset(resource.configuration_keys or ())
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
    ) -> ListConfigResourcesResponse | PendingResponse:
        """Handle a ListConfigResources: what DescribeConfigs can describe.

        In version 0 it lists client metrics: there are none.
        """
        if call.version == 0:
            return ListConfigResourcesResponse()
        kinds = set(request.resource_types) or set(ResourceType)
        if not kinds <= set(ResourceType):
            error = call.count_error(ErrorCode.UNSUPPORTED_VERSION)
            return ListConfigResourcesResponse(error_code=error)
        return call.answer(self._list(kinds, call))

    def _list(self, kinds: Container[int], call: Call) -> Steps[ListConfigResourcesResponse]:
        response = ListConfigResourcesResponse()
        topics = self._manager.topics() if ResourceType.TOPIC in kinds else ()
        for number, topic in enumerate(topics, 1):
            resource = ConfigResource(topic.name, ResourceType.TOPIC)
            encoded: Any = encode_part(call.api, call.version, resource)
            response.config_resources.append(encoded)
            if not number % NAMES_PER_STEP:
                yield None
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
