"""The one path of every call: resolve, authorise, validate, journal, run, shape, record.

    result = await engine.call("echo", {"message": "hi"}, caller, door="rest")     # on an event loop
    result = engine.call_sync("echo", {"message": "hi"}, caller, door="command")   # anywhere else

Both raise only `ToolError`.
Belongs here: everything between a request and its answer, for every channel.
Does not belong here: protocols, pages, and changes made by operators.
"""

from __future__ import annotations

from tools_app.engine.calls import Options, Result
from tools_app.engine.guards import in_words as limits_in_words
from tools_app.engine.process import (
    adopt_running_loop,
    arrived,
    call,
    call_sync,
    close,
    end_within,
    file_sync,
    left,
    note_refusal,
    note_use,
    reconnect,
    report,
    report_sync,
    trouble,
)
from tools_app.journal.attendance import Presence
from tools_app.journal.refusals import Presented

__all__ = [
    "Options",
    "Presence",
    "Presented",
    "Result",
    "adopt_running_loop",
    "arrived",
    "call",
    "call_sync",
    "close",
    "end_within",
    "file_sync",
    "left",
    "limits_in_words",
    "note_refusal",
    "note_use",
    "reconnect",
    "report",
    "report_sync",
    "trouble",
]
