"""The OpenAPI 3.1 document of the REST API: ninja's schema, completed with what ninja does not know."""

from __future__ import annotations

import functools
import json
from http import HTTPStatus
from typing import Any, Final

from django.http import HttpRequest

from tools_app.api.errors import (
    REPLAYED,
    AddressTooLongError,
    BodyTooLargeError,
    Failure,
    HeadersTooLargeError,
    UnsupportedMediaTypeError,
)
from tools_app.api.routing import StrictRouter
from tools_app.sdk import errors, hub_errors
from tools_app.sdk.checker import invalid
from tools_app.sdk.errors import ToolError
from tools_app.sdk.names import NAME
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.schemas import Schema

router = StrictRouter(tags=["hub"])

Document = dict[str, Any]

SECURITY_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer <key>`"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key, in its own header"},
}
SECURITY: Final[list[dict[str, list[str]]]] = [{name: []} for name in SECURITY_SCHEMES]
SERVERS: Final = [{"url": "/"}]

_ABOUT: Final = """\
The tools of this hub, for services. Every URL below `/v1` requires an API key in a header; the scopes of a key define
its permissions. Unknown query parameters and fields are refused. All errors are JSON and have one form.
"""
_TAGS: Final = {
    "tools": "Find, inspect and call tools; operators enable them and set their policies.",
    "calls": "Call history.",
    "errors": "Error groups. Stack traces are shown in the admin only.",
    "agents": "Connected MCP clients.",
    "audit": "Audit trail: who changed what, when and why.",
    "keys": "API keys.",
    "toolsets": "Named selections of tools, to which keys can be restricted.",
    "connections": "Accounts at upstreams. A key can use only the connections assigned to it.",
    "approvals": "Calls and tool versions that need an operator's approval.",
    "sources": "Where tools come from.",
    "alerts": "What operators are told, and the rules that send it.",
    "stops": "Kill switches: stop and resume the hub, packs, connections and keys.",
    "hub": "The hub itself.",
}
_PATH: Final[dict[str, dict[str, Any]]] = {
    "name": {"description": "The name", "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"}},
    "source_name": {"description": "The name", "schema": {"type": "string", "minLength": 1, "maxLength": 200}},
    "call_id": {"description": "`callId` of a response", "schema": {"type": "string", "minLength": 1}},
    "group_id": {"description": "The id in the list", "schema": {"type": "string", "minLength": 1}},
    "connection_id": {
        "description": "The id in the list",
        "schema": {"type": "string", "pattern": f"^({ENVIRONMENT}:)?{NAME.pattern}$"},
    },
    "approval_id": {"description": "`approvalId` of the error", "schema": {"type": "string", "minLength": 1}},
    "standing_id": {"description": "The id in the list", "schema": {"type": "string", "minLength": 1}},
    "definition_id": {
        "description": "The id in the list",
        "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    },
    "key_id": {"description": "The id in the list", "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}},
    "alert_id": {"description": "The id in the list", "schema": {"type": "string", "minLength": 1}},
    "rule_id": {"description": "The id in the list", "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}},
    "delivery_id": {"description": "The id in the list", "schema": {"type": "string", "minLength": 1}},
}
_LIMIT: Final = {
    "X-RateLimit-Limit": "Requests allowed per period, if the caller has a rate limit",
    "X-RateLimit-Remaining": "Requests remaining",
    "X-RateLimit-Reset": "Seconds until all requests are available again",
}
_REPLAYED: Final = {REPLAYED: "`true`: the stored response to the first call with this Idempotency-Key"}
# An example for each status.
_FAILURES: Final[dict[int, ToolError]] = {
    400: errors.ValidationError(problems=[invalid(["limit"], "100 or less")]),
    401: errors.AuthenticationError(),
    403: errors.AuthorizationError.lacking("tools:manage"),
    404: errors.ToolNotFoundError.named("ehco"),
    408: errors.ToolTimeoutError.after(30_000, writes=False),
    409: hub_errors.IdempotencyInProgressError(),
    413: BodyTooLargeError.over(1_048_576),
    414: AddressTooLongError(),
    415: UnsupportedMediaTypeError("The body must be sent as application/json"),
    422: hub_errors.IdempotencyMismatchError(),
    429: errors.RateLimitError(retry_after=1.5),
    431: HeadersTooLargeError(),
    500: errors.InternalError(),
    502: errors.UpstreamUnavailableError("The tracker cannot be reached"),
    503: hub_errors.StorageBusyError(),
}
_HEADERS: Final = {
    401: {"WWW-Authenticate": "`Bearer`, with the address of the metadata if the hub accepts tokens of an issuer"},
    429: {"Retry-After": "Seconds", **_LIMIT},
    503: {"Retry-After": "Seconds, if known"},
}


@router.get("/openapi.json", response={200: Document, 304: None}, url_name="openapi")
async def describe_hub(request: HttpRequest) -> Document:
    """Get the OpenAPI document of this API. `/v1/docs` shows the same as a page."""
    return document()


@functools.cache
def document() -> Document:
    """The OpenAPI document. It is the same for every caller: it does not list tools."""
    from tools_app.api import api  # Here, since `api` imports this module.

    schema: Document = dict(api.get_openapi_schema(path_prefix=""))
    about = {**schema.pop("info"), "description": _ABOUT}
    document: Document = {"openapi": schema.pop("openapi"), "info": about, **_without_titles(schema)}
    document["servers"] = SERVERS
    document["tags"] = [{"name": name, "description": description} for name, description in _TAGS.items()]
    document["components"] |= {"securitySchemes": SECURITY_SCHEMES, "responses": failure_responses()}
    for path in document["paths"].values():
        for operation in path.values():
            _complete(operation)
    _drop_unused(document)
    return document


def failure_schema() -> Schema:
    schema: Schema = _without_titles(Failure.model_json_schema(mode="serialization"))
    return schema


def failure_responses() -> dict[str, Any]:
    """All error responses by name, for `failure_reference`."""
    return {_failure_name(status): _failure_response(status, error) for status, error in _FAILURES.items()}


def failure_reference(status: int) -> dict[str, str]:
    return {"$ref": f"#/components/responses/{_failure_name(status)}"}


def called_headers() -> dict[str, Any]:
    """Response headers of a call."""
    return _headers(_LIMIT | _REPLAYED)


def idempotency_key() -> dict[str, Any]:
    description = "Calls with the same key within 24 hours return the response of the first"
    return _request_header("Idempotency-Key", description, pattern="^[ -~]{1,255}$")


def approval() -> dict[str, Any]:
    description = "Id of the approval, from the `APPROVAL_REQUIRED` error"
    return _request_header("Toolhub-Approval", description, pattern="^[0-9a-f]{32}$")


def _failure_name(status: int) -> str:
    return HTTPStatus(status).phrase.replace(" ", "").replace("-", "")


def _failure_response(status: int, error: ToolError) -> dict[str, Any]:
    example = {"success": False, **error.as_dict(), "timestamp": "2026-01-31T12:00:00.000Z"}
    response: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}, "example": example}},
    }
    if status in _HEADERS:
        response["headers"] = _headers(_HEADERS[status])
    return response


def _complete(operation: dict[str, Any]) -> None:
    """Add to an operation what ninja does not know."""
    operation["summary"] = operation["description"].partition(".")[0]
    if "security" in operation:
        operation["security"] = SECURITY
    parameters: list[dict[str, Any]] = operation["parameters"]
    for parameter in parameters:
        if parameter["in"] == "path":
            parameter |= _PATH[parameter["name"]]
    responses: dict[int, dict[str, Any]] = operation["responses"]
    headers = dict(_LIMIT)
    if 304 in responses:
        parameters.append(_request_header("If-None-Match", "`ETag` of the response that the client has cached"))
        headers["ETag"] = "For `If-None-Match` in the next request"
    if 422 in responses:
        parameters += [idempotency_key(), approval()]
        headers |= _REPLAYED
    for status, response in responses.items():
        if status < 400:
            response["headers"] = _headers(headers)
    operation["responses"] = {
        str(status): failure_reference(status) if _is_failure(response) else response
        for status, response in responses.items()
    }


def _drop_unused(document: Document) -> None:
    """Drop the schemas of query strings: ninja has listed their fields as parameters of the operations."""
    schemas = document["components"]["schemas"]
    while unused_names := [name for name in schemas if f'"#/components/schemas/{name}"' not in json.dumps(document)]:
        for name in unused_names:
            del schemas[name]


def _is_failure(response: dict[str, Any]) -> bool:
    content = response.get("content", {}).get("application/json", {})
    return bool(content.get("schema") == {"$ref": "#/components/schemas/Failure"})


def _headers(descriptions: dict[str, str]) -> dict[str, Any]:
    """Optional response headers."""
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in descriptions.items()}


def _request_header(name: str, description: str, **schema: Any) -> dict[str, Any]:
    """An optional request header."""
    return {"in": "header", "name": name, "description": description, "schema": {"type": "string", **schema}}


def _without_titles(schema: Any) -> Any:
    """Drop pydantic's titles, which only repeat the field names."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # A field named "title" is not a string but a schema: it stays.
    return {key: _without_titles(part) for key, part in schema.items() if key != "title" or not isinstance(part, str)}
