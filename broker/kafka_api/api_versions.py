"""ApiVersionsHandler: which APIs and versions are spoken."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from broker.kafka_api.call import Call
from protocol.error_codes import ErrorCode
from protocol.kafka.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from broker.kafka_api.kafka_api import KafkaApi

SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Names and versions of clients as KIP-511 allows them."""


class ApiVersionsHandler:
    """Answers with the table of what has a handler; nothing else is advertised."""

    def __init__(self, server: KafkaApi) -> None:
        self._server = server

    def api_versions(self, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
        """Handle an ApiVersions; from version 3 on a client says what software it is."""
        if call.version >= 3:
            named = (request.client_software_name, request.client_software_version)
            if not all(map(SOFTWARE.fullmatch, named)):
                call.count_error(ErrorCode.INVALID_REQUEST)
                return self.response(ErrorCode.INVALID_REQUEST)
        return self.response(ErrorCode.NONE)

    def response(self, error: ErrorCode) -> ApiVersionsResponse:
        """Return the table with an error code; of a wrong request it is empty."""
        if error == ErrorCode.INVALID_REQUEST:
            return ApiVersionsResponse(error_code=error)
        return ApiVersionsResponse(
            error_code=error,
            api_keys=[
                ApiVersion(
                    api_key=api.key,
                    min_version=api.first_version
                    if api.advertised_from is None
                    else api.advertised_from,
                    max_version=api.last_version,
                )
                for api, _, _ in self._server.handlers.values()
            ],
        )
