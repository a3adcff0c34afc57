"""Configuration of the admin theme: names, colours, navigation. Nothing is loaded from other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django.http import HttpRequest

# Title, icon, view, and the permission without which the page would only refuse.
SECTIONS: Final = (
    (
        "",
        (
            (_("Overview"), "dashboard", "index", ""),
            (_("Tools"), "construction", "tools_app_toolrecord_changelist", "tools_app.view_toolrecord"),
            (_("Agents"), "smart_toy", "tools_app_agent_changelist", "tools_app.view_agent"),
            (_("Connections"), "power", "tools_app_connection_changelist", "tools_app.view_connection"),
            (_("Kill switches"), "block", "tools_app_stop_changelist", "tools_app.view_stop"),
        ),
    ),
    (
        _("Activity"),
        (
            (_("Approvals"), "approval", "tools_app_approval_changelist", "tools_app.view_approval"),
            (_("Calls"), "swap_horiz", "tools_app_call_changelist", "tools_app.view_call"),
            (_("Issues"), "error", "tools_app_errorgroup_changelist", "tools_app.view_errorgroup"),
            (_("Error events"), "list_alt", "tools_app_errorlog_changelist", "tools_app.view_errorlog"),
            (_("Audit"), "history", "tools_app_auditentry_changelist", "tools_app.view_auditentry"),
        ),
    ),
    (
        _("Settings"),
        (
            (_("Toolsets"), "checklist", "tools_app_toolset_changelist", "tools_app.view_toolset"),
            (_("API keys"), "key", "tools_app_apikey_changelist", "tools_app.view_apikey"),
            (_("Users"), "person", "auth_user_changelist", "auth.view_user"),
            (_("Groups"), "groups", "auth_group_changelist", "auth.view_group"),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar of this user. Built per request: settings are loaded before the URLs exist."""
    from django.urls import reverse

    from tools_app.admin.approvals import waiting

    badges = {"tools_app_approval_changelist": waiting(request) or None}
    return [
        {
            "title": section,
            "separator": bool(section),
            "items": [
                {"title": title, "icon": icon, "link": reverse(f"admin:{view}"), "badge": badges.get(view)}
                for title, icon, view, permission in pages
                if not permission or request.user.has_perm(permission)
            ],
        }
        for section, pages in SECTIONS
    ]


def favicon(request: HttpRequest) -> str:
    from django.templatetags.static import static

    return static("tools_app/favicon.svg")


UNFOLD: Final[dict[str, Any]] = {
    "SITE_TITLE": "ToolHub",
    "SITE_HEADER": "ToolHub",
    "SITE_SUBHEADER": _("The tools your agents use"),
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": favicon}],
    # `/` answers programs, not people.
    "SITE_URL": None,
    # Every page shows its own audit trail.
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_LANGUAGES": True,
    "DASHBOARD_CALLBACK": "tools_app.admin.overview.context",
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": navigation},
}
