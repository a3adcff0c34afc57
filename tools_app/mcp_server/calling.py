"""A tool call, from its parameters to its wire result. Shared by the SDK's handler and the short cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

from tools_app import engine
from tools_app.mcp_server import results
from tools_app.mcp_server.conversation import Conversation
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InputRequiredError, ToolError, ToolNotFoundError, shortened
from tools_app.sdk.questions import NO_CLIENT

# In the `_meta` of a call: a call with the same key gets the result of the first.
IDEMPOTENCY_KEY: Final = "toolhub/idempotencyKey"
# Timeout in milliseconds.
TIMEOUT: Final = "toolhub/timeoutMs"
# Approximate maximum size of the result in tokens; a larger one is stored and its outline sent.
ANSWER_TOKENS: Final = "toolhub/answerTokens"
# Id of an operator's approval, from the error of an earlier call.
APPROVAL: Final = "toolhub/approval"


async def result_of(
    name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any], caller: Caller, client: Conversation | None
) -> results.WireResult:
    """Raises:
    MCPError: the request is invalid, for example names an unknown tool.
    InputRequired: the tool has questions.
    """
    options = engine.Options(
        timeout_ms=meta.get(TIMEOUT),
        idempotency_key=meta.get(IDEMPOTENCY_KEY),
        answer_tokens=meta.get(ANSWER_TOKENS),
        approval=meta.get(APPROVAL),
    )
    try:
        done = await engine.call(name, arguments, caller, door="mcp", options=options, client=client or NO_CLIENT)
        return results.succeeded(done)
    except ToolError as error:
        if isinstance(error, ToolNotFoundError) and error.error_id is None and "through" not in error.context:
            # Refused before anything ran: a tool that raises this error has an error id. If another tool was told to
            # call the unknown name, it is a failure of that tool, which the model must see.
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {shortened(name)}", results.wire_form(error)) from error
        if isinstance(error, InputRequiredError) and client is not None and (refusal := client.refusal(error)):
            raise refusal from error
        return results.failed(error)


def refusal(error: ToolError) -> MCPError:
    """The JSON-RPC error for a request that is refused before it becomes a call."""
    code = INTERNAL_ERROR if error.status >= 500 else INVALID_REQUEST
    return MCPError(code, error.message, results.wire_form(error))
