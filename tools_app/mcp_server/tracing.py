"""The span of each request, by the conventions of OpenTelemetry for MCP."""

from __future__ import annotations

from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.methods import SPEC_CLIENT_METHODS
from pydantic import ValidationError

from tools_app.mcp_server.conversation import RequestContext, connection_of
from tools_app.sdk import traces
from tools_app.sdk.traces import MOST_VALUE, TRACEPARENT, TRACESTATE, Span

# It lasts as long as its client.
_STREAM: Final = "subscriptions/listen"


async def traced(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Answer within a span, if there are traces. Notifications have none."""
    if not traces.are_on() or ctx.request_id is None or ctx.method == _STREAM:
        return await call_next(ctx)
    request: Any = ctx.request
    meta = (ctx.params or {}).get("_meta")
    own = traces.place(meta.get(TRACEPARENT), meta.get(TRACESTATE)) if isinstance(meta, dict) else None
    # What carries the message may belong to a trace of its own.
    headers = request.headers if request is not None else {}
    around = traces.place(headers.get(TRACEPARENT), headers.get(TRACESTATE))
    link = around if own is not None and around is not None and around[:2] != own[:2] else None
    # Others are whatever a client makes up.
    method = ctx.method if ctx.method in SPEC_CLIENT_METHODS else "_OTHER"
    with traces.server(method, own or around, link) as span:
        if span.is_sampled:
            _describe(span, ctx, method, is_http=request is not None)
        try:
            result = await call_next(ctx)
        except (MCPError, ValidationError) as error:
            code = str(error.code if isinstance(error, MCPError) else INVALID_PARAMS)
            span.set("rpc.response.status_code", code)
            span.fail(code)
            raise
        if isinstance(result, dict) and result.get("isError") is True:
            span.fail("tool_error")
        return result


def _describe(span: Span, ctx: RequestContext, method: str, *, is_http: bool) -> None:
    span.prefix = method
    span.set("mcp.method.name", method)
    span.set("mcp.protocol.version", ctx.protocol_version)
    span.set("jsonrpc.request.id", str(ctx.request_id)[:MOST_VALUE])
    if method == "tools/call":
        span.set("gen_ai.operation.name", "execute_tool")
    span.set("network.transport", "tcp" if is_http else "pipe")
    if is_http:
        span.set("network.protocol.name", "http")
        if session := connection_of(ctx).session_id:
            span.set("mcp.session.id", session)
