"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources: settings."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import Int8, Int16, Int32, Struct, Wire


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = []


class DescribeConfigsRequest(Struct):
    resources: list[DescribeConfigsResource] = []
    include_synonyms: Annotated[bool, Wire("1+")] = False
    include_documentation: Annotated[bool, Wire("3+")] = False


class DescribeConfigsSynonym(Struct):
    name: Annotated[str, Wire("1+")] = ""
    value: Annotated[str | None, Wire("1+")] = ""
    source: Annotated[Int8, Wire("1+")] = 0


class DescribeConfigsResourceResult(Struct):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: Annotated[Int8, Wire("1+")] = -1
    is_default: Annotated[bool, Wire("0")] = False
    is_sensitive: bool = False
    synonyms: Annotated[list[DescribeConfigsSynonym], Wire("1+")] = []
    config_type: Annotated[Int8, Wire("3+")] = 0
    documentation: Annotated[str | None, Wire("3+")] = ""


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = []


class DescribeConfigsResponse(Struct):
    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = []


class AlterableConfig(Struct):
    name: str = ""
    value: str | None = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = []


class AlterConfigsRequest(Struct):
    resources: list[AlterConfigsResource] = []
    validate_only: bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: str | None = ""
    resource_type: Int8 = 0
    resource_name: str = ""


class AlterConfigsResponse(Struct):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


class IncrementalAlterConfigsAlterableConfig(Struct):
    name: str = ""
    config_operation: Int8 = 0
    value: str | None = ""


class IncrementalAlterConfigsAlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: str = ""
    configs: list[IncrementalAlterConfigsAlterableConfig] = []


class IncrementalAlterConfigsRequest(Struct):
    resources: list[IncrementalAlterConfigsAlterConfigsResource] = []
    validate_only: bool = False


class IncrementalAlterConfigsResponse(Struct):
    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = []


class ListConfigResourcesRequest(Struct):
    resource_types: Annotated[list[Int8], Wire("1+")] = []


class ConfigResource(Struct):
    resource_name: str = ""
    resource_type: Annotated[Int8, Wire("1+")] = 16


class ListConfigResourcesResponse(Struct):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = []
