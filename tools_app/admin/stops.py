"""The stop page: one switch each for the hub, packs, connections and keys; and the banner of a stopped hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from tools_app import governance, sources
from tools_app.admin import audit, links
from tools_app.admin.governed import FailuresTold, actor
from tools_app.admin.journal import JournalAdmin
from tools_app.catalog import catalog, connections
from tools_app.catalog.entry import Entry
from tools_app.governance.stops import packs
from tools_app.models import Agent, ApiKey, AuditEntry, Connection, Stop
from tools_app.sdk.hub_errors import StorageBusyError

MOST_SHOWN: Final = 10
STOP, RESUME = "stop", "resume"
ACTIONS: Final = [f"{kind}.{verb}" for kind in Stop.Kind for verb in (STOP, RESUME)]
TITLES: Final = {
    Stop.Kind.HUB: gettext_lazy("Hub"),
    Stop.Kind.PACK: gettext_lazy("Sources"),
    Stop.Kind.CONNECTION: gettext_lazy("Connections"),
    Stop.Kind.KEY: gettext_lazy("Keys"),
}
EFFECTS: Final = {
    Stop.Kind.HUB: gettext_lazy("Refuses all calls and hides all tools from agents."),
    Stop.Kind.PACK: gettext_lazy("Refuses calls to these tools and hides them from agents."),
    Stop.Kind.CONNECTION: gettext_lazy("Blocks all requests to this upstream."),
    Stop.Kind.KEY: gettext_lazy("Refuses all requests with this key. Unlike revoking, this can be undone."),
}
NONE_YET: Final = {
    Stop.Kind.PACK: gettext_lazy("No tools yet."),
    Stop.Kind.CONNECTION: gettext_lazy("No connections yet."),
    Stop.Kind.KEY: gettext_lazy("No API keys yet."),
}


@dataclass(frozen=True, slots=True)
class Switch:
    """Something that can be stopped, and the stop that holds, if one does."""

    kind: str
    name: str
    title: str
    about: str
    stop: Stop | None


@admin.register(Stop)
class StopAdmin(JournalAdmin[Stop]):
    fields = ("kind", "name", "reason", "by", "since_exactly")
    readonly_fields = ("since_exactly",)

    def may_change(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.change_stop")

    def get_urls(self) -> list[URLPattern]:
        switch = self.admin_site.admin_view(self.switch_view)
        return [path("switch/", switch, name="tools_app_stop_switch"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        held = {(stop.kind, stop.name): stop for stop in Stop.objects.all()}
        entries = AuditEntry.objects.filter(action__in=ACTIONS)[:MOST_SHOWN]
        context = {
            **self.admin_site.each_context(request),
            "title": _("Kill switches"),
            "opts": self.opts,
            "sections": [
                {
                    "kind": kind,
                    "title": TITLES[kind],
                    "effect": EFFECTS[kind],
                    "none": NONE_YET.get(kind, ""),
                    "switches": list(_switches(kind, held)),
                }
                for kind in Stop.Kind
            ],
            "may_change": self.may_change(request),
            "changes": audit.rows(entries) if request.user.has_perm("tools_app.view_auditentry") else None,
        }
        return TemplateResponse(request, "admin/tools_app/stop/change_list.html", context)

    @method_decorator(require_POST)
    def switch_view(self, request: HttpRequest) -> HttpResponse:
        """Stop or resume, as the button said: pressing it on a page that is out of date does no harm.

        Before it stops something it asks, and says what that concerns. What resumes needs no question.
        """
        if not self.may_change(request):
            raise PermissionDenied
        kind, name = request.POST.get("kind", ""), request.POST.get("name", "").replace("\x00", "")
        wanted = request.POST.get("wanted")
        if wanted not in (STOP, RESUME) or kind not in Stop.Kind.values:
            return HttpResponseBadRequest("kind and wanted must say what to stop, or to resume")
        reason = request.POST.get("reason", "").replace("\x00", "").strip()
        if wanted == STOP and not self._confirmed(request, kind, reason):
            return self._confirm(request, Stop.Kind(kind), name, reason)
        with FailuresTold(request):
            what = _("Hub") if kind == Stop.Kind.HUB else name
            if wanted == STOP:
                changed = governance.stop(kind, name, actor=actor(request), reason=reason)
                said = (
                    _("%(what)s stopped. Calls are refused from now on.")
                    if changed
                    else _("%(what)s is already stopped.")
                )
            else:
                changed = governance.resume(kind, name, actor=actor(request), reason=reason)
                said = _("%(what)s resumed.") if changed else _("%(what)s is not stopped.")
            messages.add_message(request, messages.SUCCESS if changed else messages.INFO, said % {"what": what})
        return HttpResponseRedirect(f"{links.address('stop', 'changelist')}#{kind}")

    def _confirmed(self, request: HttpRequest, kind: str, reason: str) -> bool:
        if "confirmed" not in request.POST:
            return False
        if kind == Stop.Kind.HUB and not reason:
            messages.error(request, _("A reason is required to stop the whole hub. It is shown to callers."))
            return False
        return True

    def _confirm(self, request: HttpRequest, kind: Stop.Kind, name: str, reason: str) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": _("Stop the whole hub") if kind == Stop.Kind.HUB else _("Stop %(what)s") % {"what": name},
            "opts": self.opts,
            "effect": EFFECTS[kind],
            "concerns": list(_concerns(kind, name)),
            "kind": kind,
            "name": name,
            "reason": reason,
            "needs_reason": kind == Stop.Kind.HUB,
            "list_address": links.address("stop", "changelist"),
        }
        return TemplateResponse(request, "admin/tools_app/stop/confirm.html", context)

    @admin.display(description=gettext_lazy("Since"))
    def since_exactly(self, stop: Stop) -> str:
        return links.in_full(stop.since)


def _switches(kind: Stop.Kind, held: dict[tuple[str, str], Stop]) -> Iterator[Switch]:
    """Those that are stopped first, also where what they were for is gone."""
    about = _there(kind)
    names = [*(name for of, name in held if of == kind), *about]
    for name in dict.fromkeys(names):
        title = _("Hub") if kind == Stop.Kind.HUB else name
        yield Switch(kind, name, title, about.get(name, _("does not exist any more")), held.get((kind, name)))


def _concerns(kind: Stop.Kind, name: str) -> Iterator[str]:
    """What a stop would reach now, in numbers."""
    if kind != Stop.Kind.KEY:
        tools = sum(_uses(entry, kind, name) for entry in catalog.current().callable)
        yield ngettext("%(n)s callable tool", "%(n)s callable tools", tools) % {"n": f"{tools:,}"}
    agents = Agent.objects.connected()
    if kind == Stop.Kind.KEY:
        owned = ApiKey.objects.filter(name=name, revoked_at=None).values_list("pk", flat=True)
        agents = agents.filter(caller_id__in=[f"key:{pk}" for pk in owned])
    if kind in {Stop.Kind.HUB, Stop.Kind.KEY}:
        number = agents.count()
        words = ngettext("%(n)s connected agent (MCP)", "%(n)s connected agents (MCP)", number)
        yield words % {"n": f"{number:,}"}


def _uses(entry: Entry, kind: Stop.Kind, name: str) -> bool:
    """Whether a stop would reach a tool."""
    match kind:
        case Stop.Kind.PACK:
            return entry.pack == name
        case Stop.Kind.CONNECTION:
            return any(connections.identifier(account) == name for account in entry.accounts)
    return kind == Stop.Kind.HUB


def _there(kind: Stop.Kind) -> dict[str, str]:
    """What there is of a kind, by name, with what tells it from others."""
    match kind:
        case Stop.Kind.HUB:
            return {"": ""}
        case Stop.Kind.PACK:
            return dict.fromkeys(packs(), "")
        case Stop.Kind.CONNECTION:
            return dict(_connections())
    return dict(ApiKey.objects.filter(revoked_at=None).order_by("name").values_list("name", "prefix"))


def _connections() -> Iterator[tuple[str, str]]:
    for pack, kind in sorted(connections.kinds(sources.loaded()).items()):
        own = connections.from_environment(pack, kind)
        if own is not None:
            yield connections.identifier(own), pack
    yield from Connection.objects.order_by("name").values_list("name", "pack")


def banner(request: HttpRequest) -> dict[str, Any]:
    """For every page: the stop of the hub, where there is one. Nothing is read unless a page shows it."""
    return {"hub_stop": SimpleLazyObject(lambda: _hub_stop(request))}


def _hub_stop(request: HttpRequest) -> Stop | None:
    user = getattr(request, "user", None)
    if user is None or not user.is_staff:
        return None
    try:
        return catalog.current().stops.get((Stop.Kind.HUB, ""))
    except StorageBusyError:
        return None
