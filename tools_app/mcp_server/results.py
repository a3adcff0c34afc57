"""The wire form of results and errors of calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic_core import to_jsonable_python

from tools_app.catalog.listed import listed_output
from tools_app.engine import Result
from tools_app.sdk.errors import ToolError

WireResult = dict[str, Any]

# In the `_meta` of a result: it may contain external content.
UNTRUSTED: Final = "toolhub/untrusted"
# Number of invisible characters removed from the result.
LEFT_OUT: Final = "toolhub/invisibleCharactersLeftOut"


def success_result(result: Result) -> WireResult:
    """The result as text, and as structured content if the tool declares an output schema.

    Clients validate structured content against the declared schema and refuse a result without it. Undeclared, no
    client can rely on it, and clients that pass both forms to their model would pay for every result twice.
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
    if answer.note:
        # As text: few clients show `_meta` to their model.
        content.append(_text(answer.note))
    wire = _wire(content, failed=False, meta=meta)
    # Beside content that another server has sent as well, and of HTTP services: clients may know what is in it.
    spec = result.entry.spec
    is_listed = listed_output(spec, result.entry.detail) is not None
    declared = answer.content is not None or "operation" in spec.runtime or is_listed
    if answer.structured is not None and not result.via and declared:
        wire["structuredContent"] = answer.structured
    return wire


def error_result(error: ToolError) -> WireResult:
    """First the exact message, then further details as text, since models rarely see `_meta`.

    Without structured content: clients would validate it against the output schema and drop the message.
    """
    more = "\n".join(_details(error))
    meta = {"toolhub/error": wire_form(error)}
    if error.call_id is not None:
        meta["toolhub/callId"] = error.call_id
    if error.replayed:
        meta["toolhub/answeredBy"] = "replay"
    if error.untrusted:
        meta[UNTRUSTED] = True
    return _wire([_text(text) for text in (error.message, more) if text], failed=True, meta=meta)


def wire_form(error: ToolError) -> Any:
    """`as_dict` with the context, which tool authors fill, converted to JSON."""
    return to_jsonable_python(error.as_dict(), inf_nan_mode="null", fallback=str)


def _wire(content: Sequence[dict[str, Any]], *, failed: bool, meta: dict[str, Any]) -> WireResult:
    # The SDK sets `resultType` only on its own models; it is removed for the handshake era.
    return {
        "content": list(content),
        "isError": failed,
        "_meta": meta,
        "resultType": "complete",
    }


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _details(error: ToolError) -> Iterator[str]:
    for problem in error.details:
        expected_text = f" (expected {problem.expected})" if problem.expected not in problem.message else ""
        if expected_text or len(error.details) > 1:
            yield f"- {problem.path or 'arguments'}: {problem.message}{expected_text}"
    for reason in (error.context.get("reason"), error.context.get("errorDetails")):
        if reason:
            # Quoted, so that text of an upstream cannot pass for ours.
            plain = isinstance(reason, str) and not error.untrusted
            text = reason if plain else json.dumps(reason, ensure_ascii=False, default=str)
            yield f"Reason: {text}"
    if error.next_step:
        yield error.next_step
    if error.retry_after is not None:
        yield f"Try again in {error.retry_after:g} seconds."
    if error.error_id is not None:
        yield f"errorId: {error.error_id}"
