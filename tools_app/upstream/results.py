"""What an upstream answers, as results and errors of this hub. All of it is by outsiders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED

from tools_app.sdk import content, patterns
from tools_app.sdk.content import Block, Part
from tools_app.sdk.errors import (
    ApiError,
    NotFoundError,
    ToolError,
    ToolExecutionError,
    UpstreamInvalidResponseError,
    UpstreamUnavailableError,
    shortened,
)
from tools_app.sdk.hub_errors import (
    DefinitionChangedError,
    OutcomeUnknownError,
    UpstreamSignInError,
    UpstreamStartingError,
)
from tools_app.sdk.outside import Origin
from tools_app.sdk.prompt import Message
from tools_app.sdk.runner import Returned
from tools_app.sdk.spec import Kind, ToolSpec
from tools_app.upstream.wire import Broken

MOST_MESSAGE: Final = 4_000
# What a pattern of an operator is compared with.
MOST_MATCHED: Final = 4_096
# Each part, and escaping a URI, takes time on the event loop.
MOST_PARTS: Final = 10_000
MOST_URI: Final = 2_100
RESOURCE_NOT_FOUND: Final = -32002
# Errors that say what is wrong with the request: the upstream works.
_OF_THE_REQUEST: Final = frozenset({INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, URL_ELICITATION_REQUIRED})
_GONE: Final = re.compile(r"unknown tool|no such tool|tool\b.{0,200}\b(not found|unknown|does not exist)", re.I | re.S)
_URI_CHARACTERS: Final = "!#$%&'()*+,/:;=?@[]~"
_PARTS: Final = ("content", "messages", "contents")
LATER: Final = "Try again later; if the error persists, an operator should look at the source."
_NOTHING_SENT: Final = f"Nothing was sent. {LATER}"


class GoneError(DefinitionChangedError):
    """The source does not know the tool any more: it must be listed again."""


class _OpenOutcome(ToolError):
    """The upstream got the call, and there is no answer that says what it did."""

    is_unanswered = True

    def leave_outcome_open(self) -> None:
        super().leave_outcome_open()
        self.code, self.status = OutcomeUnknownError.code, OutcomeUnknownError.status


class UnansweredError(_OpenOutcome, UpstreamUnavailableError):
    pass


class UnreadableError(_OpenOutcome, UpstreamInvalidResponseError):
    pass


# ---- errors


def gone(origin: Origin, spec: ToolSpec) -> GoneError:
    return GoneError(f"{origin.name} does not know {spec.name} any more; the call was not run")


def broken(origin: Origin, spec: ToolSpec, error: Broken) -> ToolError:
    """The error for a request without an answer."""
    name = origin.name
    if error.needs_sign_in:
        return UpstreamSignInError.of(name, error.reason)
    if error.is_starting:
        return UpstreamStartingError.of(name, error.reason, error.retry_after or 10)
    if error.status is not None and not error.is_lost:
        next_step = "An operator should check the connection of this source." if error.status in (401, 403) else None
        return ApiError(
            f"{name} refused the call: {error.reason}",
            error.status,
            {"operation": f"call {spec.name}"},
            retry_after=error.retry_after,
            next_step=next_step,
        )
    context = {"operation": f"call {spec.name}"}
    if error.sent == "no" or error.is_lost:
        message = f"Network error: {name} cannot be used: {error.reason}"
        unsent = UpstreamUnavailableError(message, context=context, next_step=_NOTHING_SENT)
        unsent.retry_after = error.retry_after
        unsent.nothing_done = True
        return unsent
    kind = UnreadableError if error.is_unreadable else UnansweredError
    return kind(f"Network error: {name} gave no answer: {error.reason}", context=context, next_step=LATER)


def refused(origin: Origin, spec: ToolSpec, error: MCPError) -> ToolError:
    """The error for a JSON-RPC error."""
    code, text = error.error.code, error.error.message
    if spec.kind is Kind.TOOL and (code == METHOD_NOT_FOUND or (code == INVALID_PARAMS and _GONE.search(text[:1000]))):
        return gone(origin, spec)
    if spec.kind in (Kind.RESOURCE, Kind.TEMPLATE) and code == RESOURCE_NOT_FOUND:
        about = {"operation": "read", "resourceType": "resource", "resourceId": shortened(spec.key)}
        return NotFoundError("Resource not found", context=about)
    failure = ApiError(
        f"{origin.name} refused the call: {shortened(text, MOST_MESSAGE) or code}",
        context={"operation": f"call {spec.name}", "errorDetails": {"code": code}},
    )
    failure.blames_upstream = code not in _OF_THE_REQUEST
    return failure


# ---- results


def returned(origin: Origin, spec: ToolSpec, result: Mapping[str, Any]) -> Returned:
    """The result of a call.

    Raises:
        ToolError: the source says that it failed, or an operator's rule does; or it cannot be read.
    """
    try:
        if any(isinstance(parts := result.get(name), list) and len(parts) > MOST_PARTS for name in _PARTS):
            raise ValueError("too many parts")
        if spec.kind is Kind.PROMPT:
            return Returned(list(_messages(result)))
        if spec.kind in (Kind.RESOURCE, Kind.TEMPLATE):
            return Returned(list(_contents(result)))
        return _of_tool(origin, spec, result)
    except (KeyError, TypeError, ValueError) as error:
        message = f"{origin.name} answered {spec.name} with something that is no result of its kind"
        raise UnreadableError(message, detail=error, context={"operation": f"call {spec.name}"}) from error


def _of_tool(origin: Origin, spec: ToolSpec, result: Mapping[str, Any]) -> Returned:
    if result.get("resultType", "complete") != "complete":
        # It asks again and again, or is of a kind that this hub does not know.
        raise ValueError("not a complete result")
    blocks = [_block(one) for one in result.get("content") or ()]
    structured = result.get("structuredContent")
    text = "\n".join(block.in_words() for block in blocks if block.block["type"] == "text")
    if result.get("isError"):
        if len(text) < 300 and spec.key in text and _GONE.search(text):
            raise gone(origin, spec)
        raise failed(origin, spec, text)
    if origin.failure_pattern and patterns.matches(origin.failure_pattern, text[:MOST_MATCHED]):
        raise failed(origin, spec, text)
    if not blocks:
        words = "" if structured is None else json.dumps(structured, ensure_ascii=False)
        blocks = [Block({"type": "text", "text": words})]
    if structured is None and spec.output_schema is not None:
        structured = _object_in(blocks)
    return Returned(blocks, structured=structured)


def failed(origin: Origin, spec: ToolSpec, text: str) -> ToolExecutionError:
    words = text[:MOST_MESSAGE] + ("…" if len(text) > MOST_MESSAGE else "")
    return ToolExecutionError(
        words or f"{spec.name} failed, and {origin.name} does not say why",
        context={"upstream": origin.name},
        next_step=f"The message is by {origin.name}: correct the call if it says how.",
    )


def _object_in(blocks: list[Block]) -> dict[str, Any] | None:
    """The object that a single text consists of: a schema was declared, and only older servers send it as text."""
    if len(blocks) == 1 and str(blocks[0].block.get("text", "")).startswith("{"):
        try:
            value = json.loads(blocks[0].block["text"])
        except ValueError:
            return None
        return value if isinstance(value, dict) else None
    return None


def _block(block: Mapping[str, Any]) -> Block:
    """A content block with the fields that its type has, all of them checked.

    Raises:
        KeyError, TypeError, ValueError
    """
    kind = block["type"]
    if kind == "text":
        return Block({"type": kind, "text": _text(block["text"])})
    if kind in ("image", "audio"):
        mime_type, data = _text(block["mimeType"]), _text(block["data"])
        content.check_media_type(mime_type)
        if not data.isascii():
            raise ValueError("not base64")
        return Block({"type": kind, "data": data, "mimeType": mime_type})
    if kind == "resource":
        return Block({"type": kind, "resource": _resource(block["resource"])})
    if kind == "resource_link":
        uri = _uri(block["uri"])
        texts = {name: _text(block[name]) for name in ("title", "description", "mimeType") if block.get(name)}
        sizes = {"size": block["size"]} if isinstance(block.get("size"), int) else {}
        return Block({"type": kind, "uri": uri, "name": _text(block["name"]), **texts, **sizes})
    # A type that this hub does not know yet: as data, so that nothing is lost.
    return Block({"type": "text", "text": json.dumps(dict(block), ensure_ascii=False)})


def _resource(resource: Mapping[str, Any]) -> dict[str, Any]:
    uri = _uri(resource["uri"])
    mime_type = _text(resource.get("mimeType") or "")
    content.check_media_type(mime_type)
    kept = {"uri": uri, "mimeType": mime_type} if mime_type else {"uri": uri}
    if "text" in resource:
        return {**kept, "text": _text(resource["text"])}
    return {**kept, "blob": _text(resource["blob"])}


def _messages(result: Mapping[str, Any]) -> Iterator[Message]:
    for message in result["messages"]:
        yield Message(_block(message["content"]), message["role"])


def _contents(result: Mapping[str, Any]) -> Iterator[Part]:
    for resource in result["contents"]:
        yield Block({"type": "resource", "resource": _resource(resource)})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _uri(value: object) -> str:
    """Servers forget to escape spaces and other characters."""
    text = _text(value)
    if len(text) > MOST_URI:
        raise ValueError("a URI that is too long")
    uri = quote(text, safe=_URI_CHARACTERS, errors="replace")
    content.check_uri(uri)
    return uri
