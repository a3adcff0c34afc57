"""Kill switches of the hub, packs, connections and keys, maintenance, and the banners of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import audit, links
from tools_app.admin.governed import FailuresAsMessages, actor, posted, require
from tools_app.admin.journal import JournalAdmin
from tools_app.admin.lists import Column
from tools_app.catalog import accounts, catalog, obstacles
from tools_app.catalog.entry import Entry
from tools_app.governance.stops import packs
from tools_app.models import Agent, ApiKey, AuditEntry, Connection, Stop
from tools_app.sdk.hub_errors import StorageBusyError

STOP, RESUME = "stop", "resume"
EVENTS: Final = [action.event for action in (*actions.STOP_OF.values(), *actions.RESUME_OF.values())]
TITLES: Final = {
    Stop.Kind.HUB: gettext_lazy("Hub"),
    Stop.Kind.PACK: gettext_lazy("Sources"),
    Stop.Kind.CONNECTION: gettext_lazy("Connections"),
    Stop.Kind.KEY: gettext_lazy("Keys"),
    Stop.Kind.WRITES: gettext_lazy("Maintenance"),
}
EFFECTS: Final = {
    Stop.Kind.HUB: gettext_lazy("Refuses all calls and hides all tools from agents."),
    Stop.Kind.PACK: gettext_lazy("Refuses calls to these tools and hides them from agents."),
    Stop.Kind.CONNECTION: gettext_lazy("Blocks all requests to this upstream."),
    Stop.Kind.KEY: gettext_lazy("Refuses all requests with this key. Unlike revoking, this can be undone."),
    Stop.Kind.WRITES: gettext_lazy(
        "Refuses calls of tools that write; callers are told to repeat them later. Tools that only read can be called, "
        "and agents keep the same list of tools. Changes in the admin are possible."
    ),
}
# How long maintenance can last, by seconds; others with the command and over REST.
DURATIONS: Final = {
    "": gettext_lazy("until it is ended"),
    "900": gettext_lazy("15 minutes"),
    "1800": gettext_lazy("30 minutes"),
    "3600": gettext_lazy("1 hour"),
    "14400": gettext_lazy("4 hours"),
    "86400": gettext_lazy("1 day"),
}
NONE_YET: Final = {
    Stop.Kind.PACK: gettext_lazy("No tools yet."),
    Stop.Kind.CONNECTION: gettext_lazy("No connections yet."),
    Stop.Kind.KEY: gettext_lazy("No API keys yet."),
}


NEED_REASON: Final = {
    Stop.Kind.HUB: gettext_lazy("A reason is required to stop the whole hub. It is shown to callers."),
    Stop.Kind.WRITES: gettext_lazy("A reason is required for maintenance. It is shown to callers."),
}


@dataclass(frozen=True, slots=True)
class Switch:
    """Something that can be stopped, and its current stop, if any."""

    kind: str
    name: str
    title: str
    about: str
    stop: Stop | None


@admin.register(Stop)
class StopAdmin(JournalAdmin[Stop]):
    fields = ("kind", "name", "reason", "by", "since_exactly")
    posts: ClassVar = {"switch": "switch/"}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        current_stops = {(stop.kind, stop.name): stop for stop in Stop.objects.active()}
        sections = [
            {
                "kind": kind,
                "title": TITLES[kind],
                "effect": EFFECTS[kind],
                "none": NONE_YET.get(kind, ""),
                "switches": list(_switches(kind, current_stops)),
            }
            for kind in Stop.Kind
        ]
        return self.page(
            request,
            "stop/change_list.html",
            _("Kill switches"),
            sections=sections,
            may_change=actions.STOP.permits(request.user),
            changes=audit.rows(AuditEntry.objects.filter(action__in=EVENTS), request.user),
        )

    def switch_view(self, request: HttpRequest) -> HttpResponse:
        """Stop (after confirmation) or resume. The form names the action, so a stale page does no harm."""
        require(request, actions.STOP)
        kind, name = request.POST.get("kind", ""), posted(request, "name")
        action = request.POST.get("wanted")
        seconds = request.POST.get("seconds", "") if kind == Stop.Kind.WRITES else ""
        if action not in (STOP, RESUME) or kind not in Stop.Kind.values or seconds not in DURATIONS:
            return HttpResponseBadRequest("kind and wanted must say what to stop, or to resume")
        reason = posted(request, "reason")
        if action == STOP and not self._confirmed(request, kind, reason):
            return self._confirm(request, Stop.Kind(kind), name, reason)
        with FailuresAsMessages(request):
            subject = _title(kind, name)
            if action == STOP:
                duration = timedelta(seconds=int(seconds)) if seconds else None
                changed = governance.stop(kind, name, actor=actor(request), reason=reason, duration=duration)
            else:
                changed = governance.resume(kind, name, actor=actor(request), reason=reason)
            message = _message(kind, action, changed=changed)
            messages.add_message(request, messages.SUCCESS if changed else messages.INFO, message % {"what": subject})
        return HttpResponseRedirect(f"{links.address('stop', 'changelist')}#{kind}")

    def _confirmed(self, request: HttpRequest, kind: str, reason: str) -> bool:
        if "confirmed" not in request.POST:
            return False
        if (words := NEED_REASON.get(Stop.Kind(kind))) is not None and not reason:
            messages.error(request, words)
            return False
        return True

    def _confirm(self, request: HttpRequest, kind: Stop.Kind, name: str, reason: str) -> HttpResponse:
        match kind:
            case Stop.Kind.HUB:
                title = _("Stop the whole hub")
            case Stop.Kind.WRITES:
                title = _("Begin maintenance")
            case _:
                title = _("Stop %(what)s") % {"what": name}
        return self.page(
            request,
            "stop/confirm.html",
            title,
            text=EFFECTS[kind],
            concerns=list(_concerns(kind, name)),
            hidden=[("kind", kind), ("name", name), ("wanted", STOP)],
            reason=reason,
            needs_reason=kind in NEED_REASON,
            durations=DURATIONS if kind == Stop.Kind.WRITES else None,
            address=links.address("stop", "switch"),
            button=title,
            cancel_address=links.address("stop", "changelist"),
        )

    since_exactly = Column[Stop](gettext_lazy("Since"), lambda stop: links.in_full(stop.since))


def _title(kind: str, name: str) -> str:
    match kind:
        case Stop.Kind.HUB:
            return _("Hub")
        case Stop.Kind.WRITES:
            return _("Maintenance")
    return name


def _message(kind: str, action: str, *, changed: bool) -> str:
    """What was done, with a placeholder for its subject."""
    match action, kind == Stop.Kind.WRITES, changed:
        case "stop", True, True:
            return _("Maintenance has begun. Calls of tools that write are refused from now on.")
        case "stop", True, False:
            return _("The hub is already in maintenance.")
        case "stop", False, True:
            return _("%(what)s stopped. Calls are refused from now on.")
        case "stop", False, False:
            return _("%(what)s is already stopped.")
        case _, True, True:
            return _("Maintenance has ended.")
        case _, True, False:
            return _("The hub is not in maintenance.")
        case _, False, True:
            return _("%(what)s resumed.")
    return _("%(what)s is not stopped.")


def _switches(kind: Stop.Kind, current_stops: dict[tuple[str, str], Stop]) -> Iterator[Switch]:
    """Stopped ones first, also if their subject does not exist any more."""
    about = _subjects(kind)
    names = [*(name for of, name in current_stops if of == kind), *about]
    for name in dict.fromkeys(names):
        yield Switch(
            kind,
            name,
            _title(kind, name),
            about.get(name, _("does not exist any more")),
            current_stops.get((kind, name)),
        )


def _concerns(kind: Stop.Kind, name: str) -> Iterator[str]:
    """What a stop would affect now, in numbers."""
    if kind != Stop.Kind.KEY:
        tools = sum(_uses(entry, kind, name) for entry in catalog.current().callable)
        yield ngettext("%(n)s callable tool", "%(n)s callable tools", tools) % {"n": f"{tools:,}"}
    agents = Agent.objects.connected()
    if kind == Stop.Kind.KEY:
        key_pks = ApiKey.objects.filter(name=name, revoked_at=None).values_list("pk", flat=True)
        agents = agents.filter(caller_id__in=[f"key:{pk}" for pk in key_pks])
    if kind in {Stop.Kind.HUB, Stop.Kind.KEY}:
        number = agents.count()
        words = ngettext("%(n)s connected agent (MCP)", "%(n)s connected agents (MCP)", number)
        yield words % {"n": f"{number:,}"}


def _uses(entry: Entry, kind: Stop.Kind, name: str) -> bool:
    """True if a stop would affect this tool."""
    match kind:
        case Stop.Kind.PACK:
            return entry.pack == name
        case Stop.Kind.CONNECTION:
            return any(accounts.identifier(account) == name for account in entry.accounts)
        case Stop.Kind.WRITES:
            return entry.hints.writes
    return kind == Stop.Kind.HUB


def _subjects(kind: Stop.Kind) -> dict[str, str]:
    """All subjects of a kind, by name, with a distinguishing text."""
    match kind:
        case Stop.Kind.HUB | Stop.Kind.WRITES:
            return {"": ""}
        case Stop.Kind.PACK:
            return dict.fromkeys(packs(), "")
        case Stop.Kind.CONNECTION:
            return dict(_connections())
    return dict(ApiKey.objects.filter(revoked_at=None).order_by("name").values_list("name", "prefix"))


def _connections() -> Iterator[tuple[str, str]]:
    for pack, kind in sorted(catalog.current().connection_kinds.items()):
        own = accounts.from_environment(pack, kind)
        if own is not None:
            yield accounts.identifier(own), pack
    yield from Connection.objects.order_by("name").values_list("name", "pack")


def banner(request: HttpRequest) -> dict[str, Any]:
    """A context processor for every page: the stop of the hub or maintenance, if any, queried only when shown."""
    return {"hub_stop": SimpleLazyObject(lambda: _hub_stop(request))}


def _hub_stop(request: HttpRequest) -> Stop | None:
    user = getattr(request, "user", None)
    if user is None or not user.is_staff:
        return None
    try:
        stops = catalog.current().stops
        return stops.get((Stop.Kind.HUB, "")) or obstacles.maintenance(stops, timezone.now())
    except StorageBusyError:
        return None
