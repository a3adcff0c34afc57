"""A tool call, from what was asked to what is answered; the same whoever takes the message in."""

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
from tools_app.sdk.questions import NOBODY

# In the `_meta` of a call: one with the same key gets the answer of the first.
IDEMPOTENCY_KEY: Final = "toolhub/idempotencyKey"
# Likewise: how many milliseconds it may take.
TIMEOUT: Final = "toolhub/timeoutMs"
# About how large the answer may be; a larger one is kept, and its outline sent.
ANSWER_TOKENS: Final = "toolhub/answerTokens"
# What an operator has approved, by the id that an earlier call was told.
APPROVAL: Final = "toolhub/approval"


async def result_of(
    name: str, arguments: Mapping[str, Any] | None, meta: Mapping[str, Any], caller: Caller, client: Conversation | None
) -> results.WireResult:
    """Raises:
    MCPError: it is no call that could succeed or fail.
    InputRequired: the tool has questions.
    """
    options = engine.Options(
        timeout_ms=meta.get(TIMEOUT),
        idempotency_key=meta.get(IDEMPOTENCY_KEY),
        answer_tokens=meta.get(ANSWER_TOKENS),
        approval=meta.get(APPROVAL),
    )
    try:
        done = await engine.call(name, arguments, caller, door="mcp", options=options, client=client or NOBODY)
        return results.succeeded(done)
    except ToolError as error:
        if isinstance(error, ToolNotFoundError) and error.error_id is None and "through" not in error.context:
            # Refused before anything ran; a tool that fails with it has an error id. Named in the arguments of another
            # tool, it is that tool's failure, which a model is told of.
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {shortened(name)}", results.wire_form(error)) from error
        if isinstance(error, InputRequiredError) and client is not None and (refusal := client.refusal(error)):
            raise refusal from error
        return results.failed(error)


def refusal(error: ToolError) -> MCPError:
    """For what is refused without being a call."""
    code = INTERNAL_ERROR if error.status >= 500 else INVALID_REQUEST
    return MCPError(code, error.message, results.wire_form(error))
