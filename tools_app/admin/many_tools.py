"""What is done to many tools at once: switched or tagged; asked first where that is wise, and undone by a press."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from tools_app import governance
from tools_app.admin import dependencies, links
from tools_app.admin.governed import FailuresTold, GovernedAdmin, actor
from tools_app.admin.tool_list import back, carried, preserved
from tools_app.catalog import catalog
from tools_app.governance.tags import MOST_CHARACTERS, Tagging
from tools_app.models import Tag, ToolRecord

# Switching off more than this needs a confirmation.
FEW: Final = 10
MOST_SHOWN: Final = 100
MOST_AT_ONCE: Final = 10_000
# An undo link carries the names in its URL, whose length is limited.
MOST_UNDONE: Final = 300
MOST_SUGGESTED: Final = 200

ON, OFF, TAG, UNTAG = "on", "off", "tag", "untag"
OPPOSITES: Final = {ON: OFF, OFF: ON, TAG: UNTAG, UNTAG: TAG}
_NUMBERS: Final = re.compile(r"[0-9]{1,9}(,[0-9]{1,9})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Change:
    """A bulk change: the action and its tools."""

    kind: str
    tools: Mapping[int, str]
    tag: str = ""

    @property
    def names(self) -> list[str]:
        return sorted(self.tools.values())

    @property
    def numbers(self) -> str:
        return ",".join(map(str, self.tools))

    def address(self, kept: Mapping[str, str]) -> str:
        return links.address("toolrecord", "many", change=self.kind, tools=self.numbers, tag=self.tag, **kept)


class ManyTools(GovernedAdmin[ToolRecord]):
    """The actions of the list, and the page that asks before some of them."""

    actions = ("switch_on", "switch_off", "add_tag", "remove_tag")

    @admin.action(description=_lazy("Switch on"), permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, Change(ON, _tools(queryset)))

    @admin.action(description=_lazy("Switch off"), permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, Change(OFF, _tools(queryset)))

    @admin.action(description=_lazy("Add a tag…"), permissions=["change"])
    def add_tag(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, Change(TAG, _tools(queryset)))

    @admin.action(description=_lazy("Remove a tag…"), permissions=["change"])
    def remove_tag(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, Change(UNTAG, _tools(queryset)))

    def get_urls(self) -> list[URLPattern]:
        many = self.admin_site.admin_view(self.many_view)
        return [path("many/", many, name="tools_app_toolrecord_many"), *super().get_urls()]

    def many_view(self, request: HttpRequest) -> HttpResponse:
        """Ask about a change, and make it when the answer is sent: to these tools, whatever the list shows by then."""
        if not self.has_change_permission(request):
            raise PermissionDenied
        given = request.POST if request.method == "POST" else request.GET
        kind, numbers = given.get("change", ""), given.get("tools", "")
        if kind not in OPPOSITES or not _NUMBERS.fullmatch(numbers) or numbers.count(",") >= MOST_AT_ONCE:
            return HttpResponseBadRequest("change must be on, off, tag or untag; tools: their numbers")
        chosen = ToolRecord.objects.filter(pk__in=map(int, numbers.split(",")))
        change = Change(kind, _tools(chosen), given.get("tag", "").strip().replace("\x00", ""))
        kept = carried(request)
        if request.method != "POST":
            return self.ask(request, change, kept)
        self._make(request, change, kept)
        return HttpResponseRedirect(back(kept, change.tools))

    def ask(self, request: HttpRequest, change: Change, kept: Mapping[str, str]) -> HttpResponse:
        """The page with the question, what hangs on it, and a place for a reason."""
        left = dependencies.left_without(change.names, catalog.current()) if change.kind == OFF else []
        context = {
            **self.admin_site.each_context(request),
            "title": _question(change),
            "opts": self.opts,
            "change": change,
            "says": _consequence(change),
            "button": _button(change),
            "asks_for_tag": change.kind in {TAG, UNTAG},
            "most_characters": MOST_CHARACTERS,
            "known_tags": _known_tags(change),
            "names": change.names[:MOST_SHOWN],
            "more": max(0, len(change.tools) - MOST_SHOWN),
            "left": left[:MOST_SHOWN],
            "address": links.address("toolrecord", "many", **kept),
            "cancel_address": back(kept, change.tools),
        }
        return TemplateResponse(request, "admin/tools_app/toolrecord/many.html", context)

    def _begin(self, request: HttpRequest, change: Change) -> HttpResponse | None:
        if change.kind in {TAG, UNTAG} or (change.kind == OFF and asks_first(change.names)):
            return self.ask(request, change, preserved(request))
        self._make(request, change, preserved(request))
        return None

    def _make(self, request: HttpRequest, change: Change, kept: Mapping[str, str]) -> None:
        reason = request.POST.get("reason", "").strip().replace("\x00", "")
        with FailuresTold(request):
            done = _made(change, actor=actor(request), reason=reason)
            said = _told(change, done)
            if done.changed and len(done.changed) <= MOST_UNDONE:
                numbers = {number: name for number, name in change.tools.items() if name in set(done.changed)}
                undo = Change(OPPOSITES[change.kind], numbers, change.tag).address(kept)
                said = format_html('{} <a class="hub-link" href="{}">{}</a>', said, undo, _("Undo"))
            self.message_user(request, said, messages.SUCCESS if done.changed else messages.INFO)


def asks_first(names: Sequence[str]) -> bool:
    """Whether switching these off is worth a question."""
    return len(names) > FEW or bool(dependencies.left_without(names, catalog.current()))


def _tools(records: QuerySet[ToolRecord]) -> dict[int, str]:
    return dict(records.order_by("name").values_list("pk", "name"))


def _made(change: Change, *, actor: str, reason: str) -> Tagging:
    """Raises: ToolError."""
    names = change.names
    if change.kind in {ON, OFF}:
        changed = governance.set_enabled(names, change.kind == ON, actor=actor, reason=reason)
        return Tagging(changed=changed, already=[name for name in names if name not in set(changed)])
    decide = governance.add_tag if change.kind == TAG else governance.remove_tag
    return decide(change.tag, names, actor=actor, reason=reason)


def _known_tags(change: Change) -> list[str]:
    """Those that there are; those that can be taken from these tools."""
    if change.kind == TAG:
        known = Tag.objects.all()
    elif change.kind == UNTAG:
        known = Tag.objects.filter(tooltag__tool__in=change.tools, tooltag__declared=False).distinct()
    else:
        return []
    return list(known.order_by("name").values_list("name", flat=True)[:MOST_SUGGESTED])


def _question(change: Change) -> str:
    tools = count_of_tools(len(change.tools))
    return {
        ON: _("Switch on %(tools)s"),
        OFF: _("Switch off %(tools)s"),
        TAG: _("Add a tag to %(tools)s"),
        UNTAG: _("Remove a tag from %(tools)s"),
    }[change.kind] % {"tools": tools}


def _consequence(change: Change) -> str:
    return {
        ON: _("Calls are accepted from now on. Connected agents are notified."),
        OFF: _("Calls are refused from now on, in every process. Connected agents are notified."),
        TAG: _("Agents see the tag. Toolsets that select it include these tools from the next request on."),
        UNTAG: _(
            "Only tags added by operators can be removed. Toolsets that select the tag no longer include these tools."
        ),
    }[change.kind]


def _button(change: Change) -> str:
    return {ON: _("Switch on"), OFF: _("Switch off"), TAG: _("Add the tag"), UNTAG: _("Remove the tag")}[change.kind]


def _told(change: Change, done: Tagging) -> str:
    """What changed, what was so already, and what stays as it is."""
    changed, already, declared = len(done.changed), len(done.already), len(done.declared)
    was_on = ngettext("%(tools)s was already on.", "%(tools)s were already on.", already)
    was_off = ngettext("%(tools)s was already off.", "%(tools)s were already off.", already)
    keeps = ngettext(
        "%(tools)s keeps the tag: it is declared by its author.",
        "%(tools)s keep the tag: it is declared by their authors.",
        declared,
    )
    did, was = {
        ON: (_("%(tools)s switched on."), was_on),
        OFF: (_("%(tools)s switched off."), was_off),
        TAG: (_("%(tools)s tagged %(tag)s."), _("%(tools)s already had the tag %(tag)s.")),
        UNTAG: (_("%(tag)s removed from %(tools)s."), _("%(tools)s did not have the tag %(tag)s.")),
    }[change.kind]
    said = [
        sentence % {"tools": count_of_tools(number), "tag": change.tag}
        for sentence, number in ((did, changed), (was, already), (keeps, declared))
        if number
    ]
    return " ".join(said if changed else [_("Nothing changed."), *said])


def count_of_tools(number: int) -> str:
    return ngettext("%(number)s tool", "%(number)s tools", number) % {"number": f"{number:,}"}
