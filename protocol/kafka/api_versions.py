"""ApiVersions: which APIs and versions the broker speaks (KIP-35, KIP-511)."""

from __future__ import annotations

from typing import Annotated

from protocol.kafka.message import Int16, Int32, Int64, Struct, Wire


class ApiVersionsRequest(Struct):
    client_software_name: Annotated[str, Wire("3+")] = ""
    client_software_version: Annotated[str, Wire("3+")] = ""


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: Annotated[str, Wire("3+")] = ""
    min_version: Annotated[Int16, Wire("3+")] = 0
    max_version: Annotated[Int16, Wire("3+")] = 0


class FinalizedFeatureKey(Struct):
    name: Annotated[str, Wire("3+")] = ""
    max_version_level: Annotated[Int16, Wire("3+")] = 0
    min_version_level: Annotated[Int16, Wire("3+")] = 0


class ApiVersionsResponse(Struct):
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, Wire("1+")] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Wire("3+", tag=0)] = []
    finalized_features_epoch: Annotated[Int64, Wire("3+", tag=1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Wire("3+", tag=2)] = []
    zk_migration_ready: Annotated[bool, Wire("3+", tag=3)] = False
