"""Stdio servers: child processes of one supervisor per machine. `open_stream` connects with one.

Belongs here: starting, watching, sharing and ending processes. Does not belong here: sessions of MCP (`upstream`), and
what a source may be given (`sdk.child_environment`, connections).
"""

from __future__ import annotations

from tools_app.upstream.children.client import ChildStatus, open_stream, status, stop, stop_all
from tools_app.upstream.children.errors import CannotStart, NotUpYet
from tools_app.upstream.children.sandbox import isolation

__all__ = ["CannotStart", "ChildStatus", "NotUpYet", "isolation", "open_stream", "status", "stop", "stop_all"]
