"""Bulk actions on tools: switch or tag, with confirmation where needed, and undo."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import dependencies, links
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, posted, require
from tools_app.admin.tool_list import back, carried_query, list_query
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
class BulkChange:
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

    def address(self, return_query: Mapping[str, str]) -> str:
        return links.address("toolrecord", "many", change=self.kind, tools=self.numbers, tag=self.tag, **return_query)


class ManyTools(GovernedAdmin[ToolRecord]):
    """The bulk actions of the list, and their confirmation page."""

    actions = ("switch_on", "switch_off", "add_tag", "remove_tag")
    views: ClassVar = {"many": "many/"}

    @admin.action(description=_lazy("Switch on"), permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, BulkChange(ON, _tools(queryset)))

    @admin.action(description=_lazy("Switch off"), permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, BulkChange(OFF, _tools(queryset)))

    @admin.action(description=_lazy("Add a tag…"), permissions=["change"])
    def add_tag(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, BulkChange(TAG, _tools(queryset)))

    @admin.action(description=_lazy("Remove a tag…"), permissions=["change"])
    def remove_tag(self, request: HttpRequest, queryset: QuerySet[ToolRecord]) -> HttpResponse | None:
        return self._begin(request, BulkChange(UNTAG, _tools(queryset)))

    def many_view(self, request: HttpRequest) -> HttpResponse:
        """Ask for confirmation, then change exactly these tools, whatever the list shows by then."""
        require(request, actions.TOOL_CHANGE)
        data = request.POST if request.method == "POST" else request.GET
        kind, numbers = data.get("change", ""), data.get("tools", "")
        if kind not in OPPOSITES or not _NUMBERS.fullmatch(numbers) or numbers.count(",") >= MOST_AT_ONCE:
            return HttpResponseBadRequest("change must be on, off, tag or untag; tools: their numbers")
        records = ToolRecord.objects.filter(pk__in=map(int, numbers.split(",")))
        change = BulkChange(kind, _tools(records), data.get("tag", "").strip().replace("\x00", ""))
        return_query = carried_query(request)
        if request.method != "POST":
            return self.ask(request, change, return_query)
        self._make(request, change, return_query)
        return HttpResponseRedirect(back(return_query, change.tools))

    def ask(self, request: HttpRequest, change: BulkChange, return_query: Mapping[str, str]) -> HttpResponse:
        """The confirmation page, with the consequences and a field for a reason."""
        dependents = dependencies.left_without(change.names, catalog.current()) if change.kind == OFF else []
        return self.page(
            request,
            "toolrecord/many.html",
            _question(change),
            text=_consequence(change),
            button=_button(change),
            harmless=change.kind != OFF,
            asks_for_tag=change.kind in {TAG, UNTAG},
            tag=change.tag,
            most_characters=MOST_CHARACTERS,
            known_tags=_known_tags(change),
            names=change.names[:MOST_SHOWN],
            more=max(0, len(change.tools) - MOST_SHOWN),
            dependents=dependents[:MOST_SHOWN],
            hidden=[("change", change.kind), ("tools", change.numbers)],
            address=links.address("toolrecord", "many", **return_query),
            cancel_address=back(return_query, change.tools),
        )

    def _begin(self, request: HttpRequest, change: BulkChange) -> HttpResponse | None:
        if change.kind in {TAG, UNTAG} or (change.kind == OFF and asks_first(change.names)):
            return self.ask(request, change, list_query(request))
        self._make(request, change, list_query(request))
        return None

    def _make(self, request: HttpRequest, change: BulkChange, return_query: Mapping[str, str]) -> None:
        reason = posted(request, "reason")
        with FailuresAsMessages(request):
            outcome = _apply(change, actor=actor(request), reason=reason)
            message = _summary(change, outcome)
            if outcome.changed and len(outcome.changed) <= MOST_UNDONE:
                numbers = {number: name for number, name in change.tools.items() if name in set(outcome.changed)}
                undo = BulkChange(OPPOSITES[change.kind], numbers, change.tag).address(return_query)
                message = format_html("{} {}", message, links.link(undo, _("Undo")))
            self.message_user(request, message, messages.SUCCESS if outcome.changed else messages.INFO)


def asks_first(names: Sequence[str]) -> bool:
    """True if switching these off needs confirmation."""
    return len(names) > FEW or bool(dependencies.left_without(names, catalog.current()))


def _tools(records: QuerySet[ToolRecord]) -> dict[int, str]:
    return dict(records.order_by("name").values_list("pk", "name"))


def _apply(change: BulkChange, *, actor: governance.Actor, reason: str) -> Tagging:
    """Raises: ToolError."""
    names = change.names
    if change.kind in {ON, OFF}:
        changed_names = governance.set_enabled(names, change.kind == ON, actor=actor, reason=reason)
        return Tagging(changed=changed_names, already=[name for name in names if name not in set(changed_names)])
    decide = governance.add_tag if change.kind == TAG else governance.remove_tag
    return decide(change.tag, names, actor=actor, reason=reason)


def _known_tags(change: BulkChange) -> list[str]:
    """Existing tags to add, or tags that can be removed from these tools."""
    if change.kind == TAG:
        tags = Tag.objects.all()
    elif change.kind == UNTAG:
        tags = Tag.objects.filter(tooltag__tool__in=change.tools, tooltag__declared=False).distinct()
    else:
        return []
    return list(tags.order_by("name").values_list("name", flat=True)[:MOST_SUGGESTED])


def _question(change: BulkChange) -> str:
    tools = count_of_tools(len(change.tools))
    return {
        ON: _("Switch on %(tools)s"),
        OFF: _("Switch off %(tools)s"),
        TAG: _("Add a tag to %(tools)s"),
        UNTAG: _("Remove a tag from %(tools)s"),
    }[change.kind] % {"tools": tools}


def _consequence(change: BulkChange) -> str:
    return {
        ON: _("Calls are accepted from now on. Connected agents are notified."),
        OFF: _("Calls are refused from now on, in every process. Connected agents are notified."),
        TAG: _("Agents see the tag. Toolsets that select it include these tools from the next request on."),
        UNTAG: _(
            "Only tags added by operators can be removed. Toolsets that select the tag no longer include these tools."
        ),
    }[change.kind]


def _button(change: BulkChange) -> str:
    return {ON: _("Switch on"), OFF: _("Switch off"), TAG: _("Add the tag"), UNTAG: _("Remove the tag")}[change.kind]


def _summary(change: BulkChange, outcome: Tagging) -> str:
    """The message after a bulk change."""
    changed_count, already_count, declared_count = len(outcome.changed), len(outcome.already), len(outcome.declared)
    was_on = ngettext("%(tools)s was already on.", "%(tools)s were already on.", already_count)
    was_off = ngettext("%(tools)s was already off.", "%(tools)s were already off.", already_count)
    keeps = ngettext(
        "%(tools)s keeps the tag: it is declared by its author.",
        "%(tools)s keep the tag: it is declared by their authors.",
        declared_count,
    )
    did, was = {
        ON: (_("%(tools)s switched on."), was_on),
        OFF: (_("%(tools)s switched off."), was_off),
        TAG: (_("%(tools)s tagged %(tag)s."), _("%(tools)s already had the tag %(tag)s.")),
        UNTAG: (_("%(tag)s removed from %(tools)s."), _("%(tools)s did not have the tag %(tag)s.")),
    }[change.kind]
    sentences = [
        sentence % {"tools": count_of_tools(number), "tag": change.tag}
        for sentence, number in ((did, changed_count), (was, already_count), (keeps, declared_count))
        if number
    ]
    return " ".join(sentences if changed_count else [_("Nothing changed."), *sentences])


def count_of_tools(number: int) -> str:
    return ngettext("%(number)s tool", "%(number)s tools", number) % {"number": f"{number:,}"}
