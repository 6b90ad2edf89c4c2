"""ConfigChangesHandler: AlterConfigs and IncrementalAlterConfigs: settings of topics.

Those of the broker are set in its configuration, and read-only here. Both answer when the change is
durable and in effect, and no later request of the client overtakes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from broker.kafka_api.call import Call
from broker.kafka_api.changes import in_turns
from broker.kafka_api.configs import ResourceType, unsupported
from broker.kafka_api.refusal import reason_of
from broker.kafka_settings import KAFKA_SETTINGS, ConfigType
from broker.network.answers import PendingResponse
from broker.partition_table import check_is_for_clients
from broker.storage.log_config import LogConfig
from broker.topic_settings import (
    SETTINGS,
    ChangedTexts,
    altered_settings,
    canonical_name,
    log_config,
    parse_value,
    value_text,
)
from protocol.errors import InvalidConfigError, InvalidRequestError, TidelogError
from protocol.kafka.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi

Resource: TypeAlias = AlterConfigsResource | IncrementalAlterConfigsAlterConfigsResource
AnyResource = TypeVar(
    "AnyResource", AlterConfigsResource, IncrementalAlterConfigsAlterConfigsResource
)
AnyResponse = TypeVar("AnyResponse", AlterConfigsResponse, IncrementalAlterConfigsResponse)

Change: TypeAlias = Callable[[Mapping[str, str]], ChangedTexts]
"""What is to change, from the settings as they are. Raises as `altered_settings`."""


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with a value, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChangesHandler:
    """Changes settings; one for all connections."""

    def __init__(self, server: KafkaApi) -> None:
        self._server, self._manager = server, server.manager

    def alter_configs(self, request: AlterConfigsRequest, call: Call) -> PendingResponse:
        """Handle an AlterConfigs: what is not named goes back to its default."""
        results = [
            (result, partial(_all_changes, resource.configs))
            for resource, result in _once(request.resources)
        ]
        return call.later(self._answer(request, AlterConfigsResponse(), results, call))

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, call: Call
    ) -> PendingResponse:
        """Handle an IncrementalAlterConfigs: what is not named stays as it is."""
        results = [
            (result, partial(_some_changes, resource.configs, self._manager.store.defaults))
            for resource, result in _once(request.resources)
        ]
        return call.later(self._answer(request, IncrementalAlterConfigsResponse(), results, call))

    async def _answer(
        self,
        request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
        response: AnyResponse,
        results: Sequence[tuple[AlterConfigsResourceResponse, Change]],
        call: Call,
    ) -> AnyResponse:
        """Check everything; then, if that is wanted, change what can be changed."""
        times = Counter(_key(resource) for resource in request.resources)
        possible: list[tuple[AlterConfigsResourceResponse, Change]] = []
        async for result, change in in_turns(results):
            response.responses.append(result)
            try:
                if times[_key(result)] > 1:
                    raise InvalidRequestError("the resource is named twice")
                self._check(result, change)
            except TidelogError as error:
                _fail(result, error, call)
            else:
                possible.append((result, change))
        for result, change in () if request.validate_only else possible:
            try:
                await self._manager.alter_topic(result.resource_name, change)
            except TidelogError as error:
                _fail(result, error, call)
        return response

    def _check(self, result: AlterConfigsResourceResponse, change: Change) -> None:
        """Check that a change could be made now.

        Raises:
            InvalidRequestError: not a topic's; or no value, or a setting twice.
            InvalidTopicError, UnknownTopicOrPartitionError, InvalidConfigError: as
                `PartitionManager.alter_topic`.
        """
        if result.resource_type == ResourceType.BROKER:
            text = (
                "the broker's settings are read-only here: they are set in its configuration file, "
                "by TIDELOG__... in its environment or by --set"
            )
            raise InvalidRequestError(text)
        if result.resource_type != ResourceType.TOPIC:
            raise unsupported(result.resource_type)
        check_is_for_clients(result.resource_name)
        entry = self._manager.topic(result.resource_name)
        log_config(altered_settings(entry.settings, change), self._manager.store.defaults)


def _once(
    resources: Iterable[AnyResource],
) -> list[tuple[AnyResource, AlterConfigsResourceResponse]]:
    """Return each resource once, with its answer."""
    return [
        (resource, AlterConfigsResourceResponse(0, None, *key))
        for key, resource in {_key(each): each for each in resources}.items()
    ]


def _key(resource: Resource | AlterConfigsResourceResponse) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _all_changes(configs: Sequence[AlterableConfig], settings: Mapping[str, str]) -> ChangedTexts:
    changes = {name: _checked(name, value) for name, value in _named(configs)}
    return dict.fromkeys(settings) | changes


def _some_changes(
    configs: Sequence[IncrementalAlterConfigsAlterableConfig],
    defaults: LogConfig,
    settings: Mapping[str, str],
) -> ChangedTexts:
    changes: dict[str, str | None] = {}
    operations = [config.config_operation for config in configs]
    kept = [
        config
        for config in configs
        if config.config_operation != Operation.DELETE or _is_known(config.name)
    ]  # one that is unknown is not there: to delete it changes nothing
    if not set(operations) <= set(Operation):
        raise InvalidRequestError(f"there are no operations {set(operations) - set(Operation)}")
    for config, (name, value) in zip(kept, _named(kept), strict=True):
        operation = config.config_operation
        if operation == Operation.DELETE:
            changes[name] = None
        elif operation == Operation.SET:
            changes[name] = _checked(name, value)
        else:
            changes[name] = _listed(name, value, operation, settings, defaults)
    return changes


def _named(
    configs: Iterable[AlterableConfig | IncrementalAlterConfigsAlterableConfig],
) -> list[tuple[str, str | None]]:
    """Return canonical names and values.

    Raises:
        InvalidConfigError: a name is unknown.
        InvalidRequestError: a name is given twice.
    """
    named = [(canonical_name(config.name), config.value) for config in configs]
    if len({name for name, _ in named}) != len(named):
        raise InvalidRequestError("a setting is named twice")
    return named


def _is_known(name: str) -> bool:
    return name.strip().replace("_", ".") in SETTINGS


def _checked(name: str, value: str | None) -> str:
    """Return a value as it is kept."""
    if value is None:
        raise InvalidRequestError(f"{name} has no value")
    return value_text(parse_value(name, value))


def _listed(
    name: str,
    value: str | None,
    operation: int,
    settings: Mapping[str, str],
    defaults: LogConfig,
) -> str:
    """Return a list with entries more or less than there are."""
    setting = KAFKA_SETTINGS[name]
    if value is None:
        raise InvalidRequestError(f"{name} has no value")
    if setting.type is not ConfigType.LIST:
        raise InvalidConfigError(f"{name} is no list: nothing can be added or taken away")
    field = SETTINGS[name].field
    default = setting.default if field is None else value_text(getattr(defaults, field))
    there, given = (_parts(each) for each in (settings.get(name, default or ""), value))
    if operation == Operation.APPEND:
        kept = list(dict.fromkeys([*there, *given]))
    else:
        taken = set(given)
        kept = [each for each in there if each not in taken]
    return _checked(name, ",".join(kept))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _fail(result: AlterConfigsResourceResponse, error: TidelogError, call: Call) -> None:
    result.error_code = call.count_error(error.code)
    result.error_message = reason_of(error)
