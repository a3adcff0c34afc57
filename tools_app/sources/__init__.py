"""Where tools come from. `current()` are the sources of the hub, none of them imported before its first use.

Belongs here: finding, loading and reloading sources, recording what they describe, and finding the code of a tool.
Does not belong here: who may call a tool, and whether it can be called (catalog).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools_app.sources.sources import Sources


def current() -> Sources:
    """The sources of the current hub."""
    # Here, so that a process which reads an OpenAPI document imports neither Django nor the models.
    from tools_app.base import hub
    from tools_app.sources.sources import Sources

    return hub.part(Sources)
