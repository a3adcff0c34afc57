"""Configuration of the admin theme: names, colours, navigation. Nothing is loaded from other hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.utils.translation import gettext_lazy as _

from tools_app.access import actions

if TYPE_CHECKING:
    from django.http import HttpRequest

# Title, icon, view, and the reading without whose permission the page would only refuse.
SECTIONS: Final = (
    (
        "",
        (
            (_("Overview"), "dashboard", "index", None),
            (_("Tools"), "construction", "tools_app_toolrecord_changelist", actions.TOOLS_LIST),
            (_("Sources"), "inventory_2", "tools_app_source_changelist", actions.SOURCES_READ),
            (_("Agents"), "smart_toy", "tools_app_agent_changelist", actions.AGENTS_READ),
            (_("Connections"), "power", "tools_app_connection_changelist", actions.CONNECTIONS_READ),
            (_("Kill switches"), "block", "tools_app_stop_changelist", actions.STOPS_READ),
        ),
    ),
    (
        _("Activity"),
        (
            (_("Approvals"), "approval", "tools_app_approval_changelist", actions.APPROVALS_READ),
            (_("Alerts"), "inbox", "tools_app_alert_changelist", actions.ALERTS_READ),
            (_("Calls"), "swap_horiz", "tools_app_call_changelist", actions.CALLS_READ),
            (_("Usage"), "format_list_numbered", "tools_app_usage", actions.METRICS_READ),
            (_("Issues"), "error", "tools_app_errorgroup_changelist", actions.ERRORS_READ),
            (_("Error events"), "list_alt", "tools_app_errorlog_changelist", actions.ERROR_EVENTS_READ),
            (_("Audit entries"), "history", "tools_app_auditentry_changelist", actions.AUDIT_READ),
        ),
    ),
    (
        _("Settings"),
        (
            (_("Toolsets"), "checklist", "tools_app_toolset_changelist", actions.TOOLSETS_READ),
            (_("API keys"), "key", "tools_app_apikey_changelist", actions.KEYS_READ),
            (_("Alert rules"), "filter_list", "tools_app_alertrule_changelist", actions.ALERT_RULES_READ),
            (_("Users"), "person", "auth_user_changelist", actions.USERS_READ),
            (_("Groups"), "groups", "auth_group_changelist", actions.GROUPS_READ),
            (_("Data"), "database", "tools_app_process_data", actions.DATA_READ),
            (_("Settings in force"), "tune", "tools_app_process_settings", actions.SETTINGS_READ),
        ),
    ),
)

# Pages that show a time range, and the names of it in their URLs.
RANGED: Final = {
    "index": ("since",),
    **dict.fromkeys(
        (
            "tools_app_usage",
            *(f"tools_app_{model}_changelist" for model in ("call", "errorgroup", "errorlog", "auditentry")),
        ),
        ("since", "from", "until"),
    ),
}


def _ranged(request: HttpRequest, view: str) -> str:
    """The address of a page, with the time range of the page that is open."""
    from django.urls import reverse

    values = {name: request.GET[name] for name in RANGED.get(view, ()) if request.GET.get(name)}
    return f"{reverse(f'admin:{view}')}?{urlencode(values)}" if values else reverse(f"admin:{view}")


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """The sidebar of this user. Built per request: settings are loaded before the URLs exist."""
    from tools_app.admin.alerts import open_count
    from tools_app.admin.approvals import pending_count

    # With the topic that they follow.
    badges = {
        "tools_app_approval_changelist": ("approvals", pending_count(request) or None),
        "tools_app_alert_changelist": ("alerts", open_count(request) or None),
    }
    return [
        {
            "title": section,
            "separator": bool(section),
            "items": [
                {
                    "title": title,
                    "icon": icon,
                    "link": _ranged(request, view),
                    "follows": badges.get(view, ("", None))[0],
                    "badge": badges.get(view, ("", None))[1],
                }
                for title, icon, view, reading in pages
                if reading is None or reading.permits(request.user)
            ],
        }
        for section, pages in SECTIONS
    ]


def favicon(request: HttpRequest) -> str:
    from django.templatetags.static import static

    return static("tools_app/favicon.svg")


def icons(request: HttpRequest) -> str:
    """The icons of the hub's own pages: 8 KB instead of 290."""
    from django.templatetags.static import static

    return static("tools_app/icons.css")


UNFOLD: Final[dict[str, Any]] = {
    "SITE_TITLE": "ToolHub",
    "SITE_HEADER": "ToolHub",
    "SITE_SUBHEADER": _("The tools your agents use"),
    "SITE_SYMBOL": "hub",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": favicon}],
    # `/` answers programs, not people.
    "SITE_URL": None,
    "LOGIN": {"form": "toolhub.sign_in_form.SignInForm"},
    # Every page shows its own audit trail.
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_LANGUAGES": True,
    "DASHBOARD_CALLBACK": "tools_app.admin.overview.context",
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": navigation},
}
