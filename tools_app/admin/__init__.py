"""The admin: the door for operators. Importing it registers every page."""

from tools_app.admin import (
    agents,
    approvals,
    audit,
    calls,
    connections,
    error_groups,
    errors,
    keys,
    labels,
    processes,
    stops,
    tools,
    toolsets,
    users,
)

__all__ = [
    "agents",
    "approvals",
    "audit",
    "calls",
    "connections",
    "error_groups",
    "errors",
    "keys",
    "labels",
    "processes",
    "stops",
    "tools",
    "toolsets",
    "users",
]

labels.speak()
