"""Jobs around the hub itself that an agent can be given."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from tools_app.packs.builtin import pack
from tools_app.sdk.offer import Completes
from tools_app.sdk.prompt import Included, Message

_TASK = """\
Calls of the tool `{tool}` fail. Find out why, and what to do about it. Below stands what the hub says of the tool, and
of {evidence}.

1. Sort the failures by code and message. Say of each kind how often it happened, and when first and last.
2. Say of each kind whose it is to mend:
   - `VALIDATION_ERROR`: the call's. Compare its arguments with the parameters below, and give the corrected call.
   - `NOT_FOUND`, `UPSTREAM_VALIDATION`: the call's, most likely: what it named is not there, or may not be so.
   - `RATE_LIMIT_EXCEEDED`, `OVERLOADED`, `CIRCUIT_OPEN`, `TIMEOUT`: time's. Say how to ask for less, or when again.
   - `TOOL_DISABLED`, `AUTHORIZATION_ERROR`, `CONFIGURATION_ERROR`: an operator's, who has to switch or set something.
   - `API_ERROR`, `UPSTREAM_…`: the system's behind the tool. Say what it answered.
   - `TOOL_EXECUTION_ERROR`, `INTERNAL_ERROR`: a fault in the tool or the hub. Operators find it under its errorId.
3. If the tool only reads, try it: once with one of its examples, once with the arguments that failed, corrected. If
   it writes, call nothing, and show what you would send.
4. End with three things: the cause, with the ids of the calls that prove it; what I can do now; and, if an operator
   is needed, a message to send them, with tool, code and errorId.

If there is no failure on record, say so, and ask me what I did and what I saw."""


@pack.prompt(title="Find out why a tool fails", category="utility", tags=("builtin", "errors"))
def diagnose_failures(
    tool: Annotated[
        str, Field(min_length=1, max_length=64), "The tool whose calls fail", Completes("toolhub://tools/{name}")
    ],
    call: Annotated[
        str, Field(max_length=64), "The id of one call; else your latest calls", Completes("toolhub://calls/{id}")
    ] = "",
) -> list[Message]:
    """Find out why calls of a tool fail, whose it is to mend, and what to do next."""
    about = f"toolhub://tools/{quote(tool, safe='')}"
    evidence = f"toolhub://calls/{quote(call, safe='')}" if call else f"{about}/calls"
    task = _TASK.format(tool=tool, evidence="the call in question" if call else "my latest calls of it")
    return [Message(task), Message(Included(about)), Message(Included(evidence))]
