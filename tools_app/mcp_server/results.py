"""From how a call ended to what an agent is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic_core import to_jsonable_python

from tools_app.catalog.listed import listed_output
from tools_app.engine import Result
from tools_app.sdk.errors import ToolError

WireResult = dict[str, Any]

# In the `_meta` of a result: what it holds may have been written by people outside this hub.
UNTRUSTED: Final = "toolhub/untrusted"
# … and how many characters were left out of it because nobody would see them.
LEFT_OUT: Final = "toolhub/invisibleCharactersLeftOut"


def succeeded(result: Result) -> WireResult:
    """The answer as text, and as an object where the tool has declared one.

    Clients check that object against the declared schema, and refuse an answer without it. Undeclared, nobody can
    rely on it, and those that hand both forms to their model would pay for every answer twice.
    """
    meta: dict[str, Any] = {"toolhub/callId": result.call_id}
    if result.answered_by:
        meta["toolhub/answeredBy"] = result.answered_by
    answer = result.answer
    if answer.untrusted:
        meta[UNTRUSTED] = True
    content = list(answer.content or [_text(answer.text)])
    if answer.left_out:
        meta[LEFT_OUT] = answer.left_out
        # Few clients show their model the rest.
        content.append(_text(answer.note))
    wire = _wire(content, failed=False, meta=meta)
    tool = result.entry.tool
    if answer.structured is not None and tool is not None and not result.via and listed_output(tool) is not None:
        wire["structuredContent"] = answer.structured
    return wire


def failed(error: ToolError) -> WireResult:
    """First the message exactly; then what else helps, in words, since models rarely see the rest.

    There is no structured content: clients would check it against the output schema, and lose the message over it.
    """
    more = "\n".join(_more(error))
    meta = {"toolhub/error": wire_form(error)}
    if error.call_id is not None:
        meta["toolhub/callId"] = error.call_id
    if error.replayed:
        meta["toolhub/answeredBy"] = "replay"
    if error.untrusted:
        meta[UNTRUSTED] = True
    return _wire([_text(text) for text in (error.message, more) if text], failed=True, meta=meta)


def wire_form(error: ToolError) -> Any:
    """`as_dict`, with a tool author's context brought to JSON, whatever is in it."""
    return to_jsonable_python(error.as_dict(), inf_nan_mode="null", fallback=str)


def _wire(content: Sequence[dict[str, Any]], *, failed: bool, meta: dict[str, Any]) -> WireResult:
    # The SDK fills in `resultType` for its models only; the handshake era never sees it.
    return {
        "content": list(content),
        "isError": failed,
        "_meta": meta,
        "resultType": "complete",
    }


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _more(error: ToolError) -> Iterator[str]:
    for problem in error.details:
        expected = f" (expected {problem.expected})" if problem.expected not in problem.message else ""
        if expected or len(error.details) > 1:
            yield f"- {problem.path or 'arguments'}: {problem.message}{expected}"
    for reason in (error.context.get("reason"), error.context.get("errorDetails")):
        if reason:
            # Words of an upstream stay within quotes: they cannot go on as if they were ours.
            plain = isinstance(reason, str) and not error.untrusted
            text = reason if plain else json.dumps(reason, ensure_ascii=False, default=str)
            yield f"Reason: {text}"
    if error.next_step:
        yield error.next_step
    if error.retry_after is not None:
        yield f"Try again in {error.retry_after:g} seconds."
    if error.error_id is not None:
        yield f"errorId: {error.error_id}"
