"""What an alert says, in one sentence, and which page resolves it. The overview says the same of what it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.template.defaultfilters import filesizeformat
from django.urls import NoReverseMatch, reverse
from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.models import Alert, AlertRule, Stop
from tools_app.models.alerts import Event, Severity

EVENTS: Final = {
    Event.APPROVAL_REQUESTED: gettext_lazy("approval requested"),
    Event.APPROVAL_EXPIRING: gettext_lazy("approval about to expire"),
    Event.APPROVAL_EXPIRED: gettext_lazy("approval expired"),
    Event.ISSUE_NEW: gettext_lazy("new issue"),
    Event.ISSUE_REOPENED: gettext_lazy("reopened issue"),
    Event.ERROR_RATE: gettext_lazy("error rate"),
    Event.CONNECTION_FAILING: gettext_lazy("connection failing"),
    Event.CONNECTION_RECOVERED: gettext_lazy("connection recovered"),
    Event.SOURCE_FAILING: gettext_lazy("source failing"),
    Event.SOURCE_RECOVERED: gettext_lazy("source recovered"),
    Event.STOP_SET: gettext_lazy("kill switch or maintenance on"),
    Event.STOP_LIFTED: gettext_lazy("kill switch or maintenance off"),
    Event.DEFINITION_HELD: gettext_lazy("definition waiting for approval"),
    Event.FILE_BROKEN: gettext_lazy("tool file not loaded"),
    Event.KEY_EXPIRING: gettext_lazy("API key about to expire"),
    Event.BUDGET_REACHED: gettext_lazy("budget used up, or almost"),
    Event.BACKUP_OVERDUE: gettext_lazy("no good backup"),
    Event.DISK_LOW: gettext_lazy("disk almost full"),
    Event.EMERGENCY: gettext_lazy("emergency sign-in"),
}
SEVERITIES: Final = {
    Severity.ERROR: gettext_lazy("error"),
    Severity.WARNING: gettext_lazy("warning"),
    Severity.INFO: gettext_lazy("info"),
}
LIMITS: Final = {
    ("calls", "day"): gettext_lazy("%(number)s calls a day"),
    ("tokens", "day"): gettext_lazy("%(number)s tokens a day"),
    ("calls", "month"): gettext_lazy("%(number)s calls a month"),
    ("tokens", "month"): gettext_lazy("%(number)s tokens a month"),
}
# Where the admin is, in a process without its pages.
_ADMIN: Final = "/admin/"


def moment(time: datetime) -> str:
    return date_format(localtime(time), "DATETIME_FORMAT")


def limit_of_budget(unit: str, period: str, most: int) -> str:
    return str(LIMITS[unit, period]) % {"number": f"{most:,}"}


# ---- sentences of the overview as well


def backup_overdue(made_at: datetime | None) -> str:
    if made_at is None:
        return _("Scheduled backups fail: there is no good one yet.")
    return _("Scheduled backups fail: the last good one is of %(time)s.") % {"time": moment(made_at)}


def disk_low(path: str, free: int, days: int | None) -> str:
    words = _("The disk of %(path)s is almost full: %(free)s free.")
    if days is not None:
        words = _("The disk of %(path)s is full in about %(days)s days: %(free)s free.")
    return words % {"path": path, "free": filesizeformat(free), "days": days}


def emergency(time: str, who: str, name: str) -> str:
    words = _("%(time)s: %(who)s opened an emergency sign-in for %(name)s. Was it expected?")
    return words % {"time": time, "who": who, "name": name}


def stopped(kind: str, what: str) -> str:
    words = _("Maintenance: %(what)s") if kind == Stop.Kind.WRITES else _("Stopped: %(what)s")
    return words % {"what": what}


def calls_failed(share: float, what: str = "") -> str:
    if what:
        return _("%(share)s of the calls of %(what)s failed.") % {"share": f"{share:.0%}", "what": what}
    return _("%(share)s of the calls failed.") % {"share": f"{share:.0%}"}


def connection_failing(name: str, why: str) -> str:
    return _("Connection %(name)s is failing: %(why)s") % {"name": name, "why": why}


def source_failing(name: str, why: str) -> str:
    return _("Source %(name)s is not available: %(why)s") % {"name": name, "why": why}


def file_broken(why: str) -> str:
    return _("A tool cannot be loaded: %(why)s") % {"why": why}


def rule_failing(name: str, why: str) -> str:
    return _("Alert rule %(name)s cannot send: %(why)s") % {"name": name, "why": why}


# ---- alerts


def sentence(alert: Alert) -> str:
    """In the language of the moment."""
    return _SENTENCES[Event(alert.event)](alert, alert.details)


def _approval(words: str, alert: Alert, values: Mapping[str, Any]) -> str:
    about = {"tool": alert.tool_name, "caller": alert.caller_name, "time": _time(values, "until")}
    return words % about


def _approval_requested(alert: Alert, values: Mapping[str, Any]) -> str:
    return _approval(_("%(caller)s wants to call %(tool)s. The call waits until %(time)s."), alert, values)


def _approval_expiring(alert: Alert, values: Mapping[str, Any]) -> str:
    return _approval(_("The call of %(tool)s by %(caller)s still waits, and expires %(time)s."), alert, values)


def _approval_expired(alert: Alert, values: Mapping[str, Any]) -> str:
    return _approval(_("The call of %(tool)s by %(caller)s expired without an answer %(time)s."), alert, values)


def _issue(words: str, alert: Alert, values: Mapping[str, Any]) -> str:
    place = f" ({values['place']})" if values.get("place") else ""
    return words % {"code": values.get("code", ""), "tool": alert.tool_name, "place": place}


def _issue_new(alert: Alert, values: Mapping[str, Any]) -> str:
    return _issue(_("New issue: %(code)s %(tool)s%(place)s"), alert, values)


def _issue_reopened(alert: Alert, values: Mapping[str, Any]) -> str:
    return _issue(_("Reopened issue: %(code)s %(tool)s%(place)s happened again."), alert, values)


def _connection_recovered(alert: Alert, values: Mapping[str, Any]) -> str:
    return _("Connection %(name)s works again.") % {"name": values.get("name", "")}


def _source_recovered(alert: Alert, values: Mapping[str, Any]) -> str:
    return _("Source %(name)s is available again.") % {"name": alert.source}


def _stop_lifted(alert: Alert, values: Mapping[str, Any]) -> str:
    return _("No longer stopped: %(what)s") % {"what": values.get("what", "")}


def _definition_held(alert: Alert, values: Mapping[str, Any]) -> str:
    words = _("New or changed tools of %(source)s wait for approval: %(tools)s")
    return words % {"source": alert.source, "tools": values.get("tools", "")}


def _key_expiring(alert: Alert, values: Mapping[str, Any]) -> str:
    return _("API key %(name)s expires %(time)s.") % {"name": values.get("name", ""), "time": _time(values, "until")}


def _budget_reached(alert: Alert, values: Mapping[str, Any]) -> str:
    words = _("Budget of the API key %(name)s: %(level)s %% of %(limit)s are used. It resets %(time)s.")
    if values.get("kind") == "toolset":
        words = _("Budget of the toolset %(name)s: %(level)s %% of %(limit)s are used. It resets %(time)s.")
    limit = limit_of_budget(values.get("unit", "calls"), values.get("period", "day"), values.get("limit", 0))
    about = {"name": values.get("name", ""), "level": values.get("level", 0), "limit": limit}
    return words % {**about, "time": _time(values, "until")}


def _time(values: Mapping[str, Any], name: str) -> str:
    text = values.get(name)
    # Not as the overview says it: a receiver is in another time zone, and in a hurry.
    return f"{localtime(datetime.fromisoformat(text)):%Y-%m-%d %H:%M %Z}" if text else ""


_SENTENCES: Final[dict[Event, Callable[[Alert, Mapping[str, Any]], str]]] = {
    Event.APPROVAL_REQUESTED: _approval_requested,
    Event.APPROVAL_EXPIRING: _approval_expiring,
    Event.APPROVAL_EXPIRED: _approval_expired,
    Event.ISSUE_NEW: _issue_new,
    Event.ISSUE_REOPENED: _issue_reopened,
    Event.ERROR_RATE: lambda alert, values: calls_failed(values.get("share", 0), alert.tool_name or alert.source),
    Event.CONNECTION_FAILING: lambda _, values: connection_failing(values.get("name", ""), values.get("why", "")),
    Event.CONNECTION_RECOVERED: _connection_recovered,
    Event.SOURCE_FAILING: lambda alert, values: source_failing(alert.source, values.get("why", "")),
    Event.SOURCE_RECOVERED: _source_recovered,
    Event.STOP_SET: lambda _, values: stopped(values.get("kind", ""), values.get("what", "")),
    Event.STOP_LIFTED: _stop_lifted,
    Event.DEFINITION_HELD: _definition_held,
    Event.FILE_BROKEN: lambda _, values: file_broken(values.get("why", "")),
    Event.KEY_EXPIRING: _key_expiring,
    Event.BUDGET_REACHED: _budget_reached,
    Event.BACKUP_OVERDUE: lambda _, values: backup_overdue(
        datetime.fromisoformat(values["made_at"]) if values.get("made_at") else None
    ),
    Event.EMERGENCY: lambda _, values: emergency(_time(values, "at"), values.get("who", ""), values.get("name", "")),
    Event.DISK_LOW: lambda _, values: disk_low(values.get("path", ""), values.get("free", 0), values.get("days")),
}


# ---- pages


def path(alert: Alert) -> str:
    """The page of the admin that resolves it."""
    kind, _, key = alert.subject.partition(":")
    if alert.event in _LISTS:
        return _page(_LISTS[Event(alert.event)])
    if kind in _RECORDS:
        return _page(_RECORDS[kind], key)
    match kind:
        case "stop":
            return _page("stop")
        case "disk":
            return _page("process", view="data")
        case "emergency":
            return _page("auditentry", action="user.break_glass")
        case "backup":
            return _page("auditentry", action="backup.create")
    return _page("call", tool=alert.tool_name, status="error", since="1h")


# Pages of the records that alerts are about.
_RECORDS: Final = {
    "approval": "approval",
    "issue": "errorgroup",
    "connection": "connection",
    "source": "source",
    "key": "apikey",
    "toolset": "toolset",
}
# Lists of what is waiting, or broken, at a source.
_LISTS: Final = {Event.DEFINITION_HELD: "definition", Event.FILE_BROKEN: "toolrecord"}


def page_of(alert: Alert) -> str:
    return _page("alert", alert.pk)


def list_page() -> str:
    return _page("alert")


def rule_page(rule: AlertRule) -> str:
    return _page("alertrule", str(rule.pk))


def _page(model: str, key: str = "", view: str = "", **query: str) -> str:
    name = view or ("change" if key else "changelist")
    try:
        address = reverse(f"admin:tools_app_{model}_{name}", args=[key] if key else [])
    except (NoReverseMatch, LookupError, ImportError):
        # Processes for agents have no pages.
        address = f"{_ADMIN}tools_app/{model}/" + (f"{key}/change/" if key else f"{view}/" if view else "")
    values = {name: value for name, value in query.items() if value}
    return f"{address}?{urlencode(values)}" if values else address
