"""Responses to requests that are refused before the SDK sees them: an HTTP status with a JSON-RPC error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus

from mcp_types import INTERNAL_ERROR, INVALID_REQUEST, ErrorData, JSONRPCError
from starlette.responses import Response

from tools_app.access import issuer
from tools_app.mcp_server import frames, results
from tools_app.mcp_server.frames import InvalidMessage
from tools_app.sdk.errors import ToolError


class RequestRefused(Exception):
    """A refused request. `error` is the response."""

    def __init__(self, status: int, error: JSONRPCError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error.error.message)
        self.status = status
        self.error = error
        self.headers = dict(headers or {})

    @classmethod
    def because(cls, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> RequestRefused:
        return cls(status, _error(INVALID_REQUEST, message), headers)

    @classmethod
    def invalid(cls, fault: InvalidMessage) -> RequestRefused:
        return cls(HTTPStatus.BAD_REQUEST, fault.answer)

    @classmethod
    def by(cls, error: ToolError, url: str) -> RequestRefused:
        """A refusal with the error of a request to `url`."""
        headers = {}
        if challenge := issuer.challenge(error, url):
            headers["WWW-Authenticate"] = challenge
        if error.retry_after is not None:
            headers["Retry-After"] = str(math.ceil(error.retry_after))
        refusal = _error(INTERNAL_ERROR if error.status >= 500 else INVALID_REQUEST, error.message)
        refusal.error.data = results.wire_form(error)
        return cls(error.status, refusal, headers)

    def response(self) -> Response:
        return Response(frames.write(self.error), self.status, self.headers, media_type="application/json")


def _error(code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))
