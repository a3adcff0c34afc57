"""The admin, for operators. Importing it registers every page.

Belongs here: pages, forms, lists and their words; each page calls `governance`, `engine` or `journal.insights` once.
Does not belong here: rules. What REST or a command must also obey is in a room below.
"""

from django.contrib import admin

from tools_app.admin import (
    agents,
    alert_rules,
    alerts,
    approvals,
    audit,
    calls,
    connections,
    error_groups,
    errors,
    keys,
    labels,
    pages,
    processes,
    sessions,
    sources,
    standing,
    stops,
    tools,
    toolsets,
    users,
)

__all__ = [
    "agents",
    "alert_rules",
    "alerts",
    "approvals",
    "audit",
    "calls",
    "connections",
    "error_groups",
    "errors",
    "keys",
    "labels",
    "pages",
    "processes",
    "sessions",
    "sources",
    "standing",
    "stops",
    "tools",
    "toolsets",
    "users",
]

labels.speak()
pages.add_to(admin.site)
