"""A tool call, from its parameters to its wire result."""

from __future__ import annotations

from typing import Any, Final

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, CallToolRequestParams

from tools_app import engine
from tools_app.mcp_server import results
from tools_app.mcp_server.conversation import Conversation, RequestContext
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import InputRequiredError, ToolError, ToolNotFoundError, shortened
from tools_app.sdk.questions import Ask

# In the `_meta` of a call: a call with the same key gets the result of the first.
IDEMPOTENCY_KEY: Final = "toolhub/idempotencyKey"
# Timeout in milliseconds.
TIMEOUT: Final = "toolhub/timeoutMs"
# Approximate maximum size of the result in tokens; a larger one is stored and its outline sent.
ANSWER_TOKENS: Final = "toolhub/answerTokens"
# Paths of the parts of the result to send. Models send the argument `_fields`.
FIELDS: Final = "toolhub/fields"
# Id of an operator's approval, from the error of an earlier call.
APPROVAL: Final = "toolhub/approval"


async def result_of(context: RequestContext, params: CallToolRequestParams, caller: Caller) -> results.WireResult:
    """The result of a call, or the questions of the tool.

    Raises:
    MCPError: the request is invalid, for example names an unknown tool.
    """
    client = Conversation(context, caller, [params.name, params.arguments])
    client.check()
    # Any content.
    meta: Any = params.meta or {}
    options = engine.Options(
        timeout_ms=meta.get(TIMEOUT),
        idempotency_key=meta.get(IDEMPOTENCY_KEY),
        answer_tokens=meta.get(ANSWER_TOKENS),
        approval=meta.get(APPROVAL),
        fields=meta.get(FIELDS, ()),
    )
    try:
        result = await engine.call(params.name, params.arguments, caller, door="mcp", options=options, client=client)
        return client.result(result) if isinstance(result, Ask) else results.success_result(result)
    except ToolError as error:
        if isinstance(error, ToolNotFoundError) and error.error_id is None and "through" not in error.context:
            # Refused before anything ran: a tool that raises this error has an error id. If another tool was told to
            # call the unknown name, it is a failure of that tool, which the model must see.
            raise MCPError(
                INVALID_PARAMS, f"Unknown tool: {shortened(params.name)}", results.wire_form(error)
            ) from error
        if isinstance(error, InputRequiredError) and (refusal := client.refusal(error)):
            raise refusal from error
        return results.error_result(error)
    finally:
        await client.end()


def refusal(error: ToolError) -> MCPError:
    """The JSON-RPC error for a request that is refused before it becomes a call."""
    code = INTERNAL_ERROR if error.status >= 500 else INVALID_REQUEST
    return MCPError(code, error.message, results.wire_form(error))
