"""Prompts about the hub itself."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from tools_app.packs.builtin import pack
from tools_app.sdk.offer import Completes
from tools_app.sdk.prompt import Included, Message

_TASK = """\
Calls of the tool `{tool}` fail. Find out why, and what to do about it. Below is the hub's data about the tool and about
{evidence}.

1. Group the failures by code and message. For each group, report the count and the first and last time.
2. For each group, say where the fix belongs:
   - `VALIDATION_ERROR`: in the call. Compare its arguments with the parameters below, and give the corrected call.
   - `NOT_FOUND`, `UPSTREAM_VALIDATION`: most likely in the call: an object does not exist, or a value is not allowed.
   - `RATE_LIMIT_EXCEEDED`, `OVERLOADED`, `CIRCUIT_OPEN`, `TIMEOUT`: retry later. Say how to request less, or when.
   - `TOOL_DISABLED`, `AUTHORIZATION_ERROR`, `CONFIGURATION_ERROR`: an operator has to change a setting.
   - `API_ERROR`, `UPSTREAM_…`: in the system behind the tool. Quote its response.
   - `TOOL_EXECUTION_ERROR`, `INTERNAL_ERROR`: a bug in the tool or the hub. Operators find it by its errorId.
3. If the tool is read-only, try it: once with one of its examples, once with the failed arguments, corrected. If it
   writes, call nothing, and show what you would send.
4. Conclude with three things: the cause, with the ids of the calls that prove it; what I can do now; and, if an
   operator is needed, a message to them with tool, code and errorId.

If no failure is recorded, say so, and ask me what I did and what I saw."""


@pack.prompt(title="Find out why a tool fails", category="utility", tags=("builtin", "errors"))
def diagnose_failures(
    tool: Annotated[
        str, Field(min_length=1, max_length=64), "The tool whose calls fail", Completes("toolhub://tools/{name}")
    ],
    call: Annotated[
        str, Field(max_length=64), "The id of one call; empty: your latest calls", Completes("toolhub://calls/{id}")
    ] = "",
) -> list[Message]:
    """Find out why calls of a tool fail, who has to fix it, and what to do next."""
    about = f"toolhub://tools/{quote(tool, safe='')}"
    evidence = f"toolhub://calls/{quote(call, safe='')}" if call else f"{about}/calls"
    task = _TASK.format(tool=tool, evidence="the call in question" if call else "my latest calls of it")
    return [Message(task), Message(Included(about)), Message(Included(evidence))]
