"""The description of the REST door, as OpenAPI 3.1: what ninja knows of it, and what it does not."""

from __future__ import annotations

import functools
import json
from http import HTTPStatus
from typing import Any, Final

from django.http import HttpRequest, HttpResponse

from tools_app.api.answers import answer_unless_known
from tools_app.api.errors import (
    REPLAYED,
    AddressTooLongError,
    BodyTooLargeError,
    Failure,
    HeadersTooLargeError,
    UnsupportedMediaTypeError,
    failures,
)
from tools_app.api.routing import StrictRouter
from tools_app.sdk import errors, hub_errors
from tools_app.sdk.errors import Problem, ToolError
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
The tools of this hub, for services. Every address below `/v1` needs an API key, in a header; what a key may do is said
by its scopes. Unknown query parameters and fields are refused. Whatever fails, the answer is JSON and has one form.
"""
_TAGS: Final = {
    "tools": "Find tools, look at them, call them; operators switch them and set their policies.",
    "calls": "What was called, and how it ended.",
    "errors": "What fails, by kind. Stacks are read in the admin only.",
    "agents": "The MCP clients that are connected now.",
    "audit": "Who changed what, when and why.",
    "keys": "Who may come in.",
    "toolsets": "Named choices of tools, which keys can be bound to.",
    "connections": "Accounts at upstreams. A key uses those that it is bound to, and no others.",
    "approvals": "Calls, and versions of tools, that wait for an operator.",
    "stops": "What is stopped: the hub, packs, connections, keys.",
    "hub": "The hub itself.",
}
_PATH: Final[dict[str, dict[str, Any]]] = {
    "name": {"description": "The name", "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"}},
    "call_id": {"description": "`callId` of an answer", "schema": {"type": "string", "minLength": 1}},
    "group_id": {"description": "The id in the list", "schema": {"type": "string", "minLength": 1}},
    "connection_id": {
        "description": "The id in the list",
        "schema": {"type": "string", "pattern": f"^({ENVIRONMENT}:)?{NAME.pattern}$"},
    },
    "approval_id": {"description": "`approvalId` of the error", "schema": {"type": "string", "minLength": 1}},
    "definition_id": {
        "description": "The id in the list",
        "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
    },
    "key_id": {"description": "The id in the list", "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"}},
}
_LIMIT: Final = {
    "X-RateLimit-Limit": "How many requests the caller may make within a while, where there is a limit",
    "X-RateLimit-Remaining": "How many of them are left",
    "X-RateLimit-Reset": "Seconds until all of them are there again",
}
_REPLAYED: Final = {REPLAYED: "`true`: this is what the first call with that Idempotency-Key was told"}
# One for each way to fail.
_FAILURES: Final[dict[int, ToolError]] = {
    400: errors.ValidationError(
        problems=[Problem("/limit", "Invalid value for parameter limit: expected 100 or less", "100 or less")]
    ),
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
    401: {"WWW-Authenticate": "`Bearer`, and where tokens come from, if the hub takes any but its own keys"},
    429: {"Retry-After": "Seconds", **_LIMIT},
    503: {"Retry-After": "Seconds, where that is known"},
}


@router.get("/openapi.json", response={200: Document, 304: None, **failures()}, url_name="openapi")
async def describe_hub(request: HttpRequest) -> HttpResponse:
    """Describe all addresses of this hub, as OpenAPI 3.1. People find the same at `/v1/docs`."""
    return answer_unless_known(request, document())


@functools.cache
def document() -> Document:
    """The description. It is the same for every caller: which tools there are does not stand in it."""
    from tools_app.api import api  # All of it is described, this address too.

    given: Document = dict(api.get_openapi_schema(path_prefix=""))
    about = {**given.pop("info"), "description": _ABOUT}
    made: Document = {"openapi": given.pop("openapi"), "info": about, **_without_titles(given)}
    made["servers"] = SERVERS
    made["tags"] = [{"name": name, "description": description} for name, description in _TAGS.items()]
    made["components"] |= {"securitySchemes": SECURITY_SCHEMES, "responses": failure_responses()}
    for path in made["paths"].values():
        for operation in path.values():
            _complete(operation)
    _drop_unused(made)
    return made


def failure_schema() -> Schema:
    schema: Schema = _without_titles(Failure.model_json_schema(mode="serialization"))
    return schema


def failure_responses() -> dict[str, Any]:
    """Every way to fail, by name, for `failure_reference`."""
    return {_failure_name(status): _failure_response(status, error) for status, error in _FAILURES.items()}


def failure_reference(status: int) -> dict[str, str]:
    return {"$ref": f"#/components/responses/{_failure_name(status)}"}


def called_headers() -> dict[str, Any]:
    """What an answer to a call says beside its body."""
    return _headers(_LIMIT | _REPLAYED)


def idempotency_key() -> dict[str, Any]:
    description = "A second call with the same key gets the answer of the first, for 24 hours"
    return _asked("Idempotency-Key", description, pattern="^[ -~]{1,255}$")


def approval() -> dict[str, Any]:
    description = "The id of what an operator has approved, as `APPROVAL_REQUIRED` named it"
    return _asked("Toolhub-Approval", description, pattern="^[0-9a-f]{32}$")


def _failure_name(status: int) -> str:
    return HTTPStatus(status).phrase.replace(" ", "").replace("-", "")


def _failure_response(status: int, error: ToolError) -> dict[str, Any]:
    example = {"success": False, **error.as_dict(), "timestamp": "2026-01-31T12:00:00.000Z"}
    made: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}, "example": example}},
    }
    if status in _HEADERS:
        made["headers"] = _headers(_HEADERS[status])
    return made


def _complete(operation: dict[str, Any]) -> None:
    """What ninja cannot know."""
    operation["summary"] = operation["description"].partition(".")[0]
    if "security" in operation:
        operation["security"] = SECURITY
    parameters: list[dict[str, Any]] = operation["parameters"]
    for parameter in parameters:
        if parameter["in"] == "path":
            parameter |= _PATH[parameter["name"]]
    responses: dict[int, dict[str, Any]] = operation["responses"]
    told = dict(_LIMIT)
    if 304 in responses:
        parameters.append(_asked("If-None-Match", "`ETag` of the answer that the client has"))
        told["ETag"] = "For `If-None-Match` in the next request"
    if 422 in responses:
        parameters += [idempotency_key(), approval()]
        told |= _REPLAYED
    for status, response in responses.items():
        if status < 400:
            response["headers"] = _headers(told)
    operation["responses"] = {
        str(status): failure_reference(status) if _fails(response) else response
        for status, response in responses.items()
    }


def _drop_unused(made: Document) -> None:
    """Ninja keeps the schemas of query strings, too, whose fields stand with the operations."""
    schemas = made["components"]["schemas"]
    while unused := [name for name in schemas if f'"#/components/schemas/{name}"' not in json.dumps(made)]:
        for name in unused:
            del schemas[name]


def _fails(response: dict[str, Any]) -> bool:
    content = response.get("content", {}).get("application/json", {})
    return bool(content.get("schema") == {"$ref": "#/components/schemas/Failure"})


def _headers(told: dict[str, str]) -> dict[str, Any]:
    """Headers that an answer may have."""
    return {name: {"description": words, "schema": {"type": "string"}} for name, words in told.items()}


def _asked(name: str, description: str, **schema: Any) -> dict[str, Any]:
    """A header that a request may have."""
    return {"in": "header", "name": name, "description": description, "schema": {"type": "string", **schema}}


def _without_titles(schema: Any) -> Any:
    """Of schemas: pydantic names every field a second time, in other letters."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # A field that is called so is no text but a schema.
    return {key: _without_titles(part) for key, part in schema.items() if key != "title" or not isinstance(part, str)}
