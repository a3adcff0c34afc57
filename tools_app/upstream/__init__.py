"""Connections to sources outside. `current()` has those of the hub.

Belongs here: sessions with MCP servers, their transports, child processes, and the runners of their tools.
Does not belong here: what a source lists and what is approved of it (sources), who may call a tool (engine).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools_app.base import hub

if TYPE_CHECKING:
    from tools_app.upstream.upstreams import Upstreams


def current() -> Upstreams:
    """The connections of the current hub."""
    # Here, since `children` needs no models.
    from tools_app.upstream.upstreams import Upstreams

    return hub.part(Upstreams)
