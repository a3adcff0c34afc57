"""How the admin looks: names, colours and the way around. Read by the theme; nothing is fetched from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from django.http import HttpRequest

# Title, icon, view, and the permission without which the page would only refuse.
SECTIONS: Final = {
    "": (
        ("Overview", "dashboard", "index", ""),
        ("Error groups", "error", "tools_app_errorgroup_changelist", "tools_app.view_errorgroup"),
        ("Tools", "construction", "tools_app_toolrecord_changelist", "tools_app.view_toolrecord"),
        ("Calls", "swap_horiz", "tools_app_call_changelist", "tools_app.view_call"),
        ("Errors", "list_alt", "tools_app_errorlog_changelist", "tools_app.view_errorlog"),
    ),
    "Access": (
        ("API keys", "key", "tools_app_apikey_changelist", "tools_app.view_apikey"),
        ("Connections", "power", "tools_app_connection_changelist", "tools_app.view_connection"),
        ("Toolsets", "checklist", "tools_app_toolset_changelist", "tools_app.view_toolset"),
        ("Users", "person", "auth_user_changelist", "auth.view_user"),
        ("Groups", "groups", "auth_group_changelist", "auth.view_group"),
    ),
    "Operate": (
        ("Audit", "history", "tools_app_auditentry_changelist", "tools_app.view_auditentry"),
        ("Processes", "memory", "tools_app_process_changelist", "tools_app.view_process"),
    ),
}


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar of this user. Built for each page: settings are read before there are addresses."""
    from django.urls import reverse

    return [
        {
            "title": section,
            "separator": bool(section),
            "items": [
                {"title": title, "icon": icon, "link": reverse(f"admin:{view}")}
                for title, icon, view, permission in pages
                if not permission or request.user.has_perm(permission)
            ],
        }
        for section, pages in SECTIONS.items()
    ]


def favicon(request: HttpRequest) -> str:
    from django.templatetags.static import static

    return static("tools_app/favicon.svg")


UNFOLD: Final[dict[str, Any]] = {
    "SITE_TITLE": "ToolHub",
    "SITE_HEADER": "ToolHub",
    "SITE_SUBHEADER": "The tools your agents use",
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": favicon}],
    # `/` answers programs, not people.
    "SITE_URL": None,
    # Every page shows its own audit trail.
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "tools_app.admin.overview.context",
    "BORDER_RADIUS": "6px",
    "COLORS": {
        # 600 carries white text, 400 and 500 are text on dark ground: both reach a contrast of 4.5.
        "primary": {
            "50": "oklch(98.4% .014 180.72)",
            "100": "oklch(95.3% .051 180.801)",
            "200": "oklch(91% .096 180.426)",
            "300": "oklch(85.5% .138 181.071)",
            "400": "oklch(77.7% .152 181.912)",
            "500": "oklch(70.4% .14 182.503)",
            "600": "oklch(51.1% .096 186.391)",
            "700": "oklch(43.7% .078 188.216)",
            "800": "oklch(38.6% .063 188.416)",
            "900": "oklch(33% .052 189)",
            "950": "oklch(27.7% .046 192.524)",
        },
    },
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": navigation},
}
