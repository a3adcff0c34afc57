"""How lists are narrowed down. Every choice is a link, so it works without a script and can be shared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.admin.key_words import needing_attention
from tools_app.admin.states import WORDS, Effect, State, having, within
from tools_app.catalog import catalog
from tools_app.journal import insights
from tools_app.journal.lease import INTERRUPTED
from tools_app.models import AuditEntry, Call, ErrorGroup
from tools_app.sdk import hub_errors

SPANS: Final = {
    "1h": _lazy("Last hour"),
    "24h": _lazy("Last 24 hours"),
    "7d": _lazy("Last 7 days"),
    "30d": _lazy("Last 30 days"),
}


class StateFilter(SimpleListFilter):
    title = _lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(state, capfirst(str(WORDS[state]))) for state in State]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return within(queryset, State(chosen), catalog.current()) if chosen in set(State) else queryset


class StatusFilter(SimpleListFilter):
    title = _lazy("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        labels = Call._meta.get_field("status").flatchoices
        return [("error", _("Any error")), *((status, capfirst(str(label))) for status, label in labels)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen == "error":
            return queryset.filter(status__in=insights.ERRORS)
        return queryset.filter(status=chosen) if chosen in Call.Status.values else queryset


class ResolvedFilter(SimpleListFilter):
    """Open groups, unless something else is asked for."""

    title = _lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [("resolved", _("Resolved")), ("all", _("All"))]

    def choices(self, changelist: Any) -> Iterator[Any]:
        first, *others = super().choices(changelist)
        yield {**first, "display": _("Open")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "resolved":
                return queryset.exclude(resolved_at=None)
            case "all":
                return queryset
        return queryset.filter(resolved_at=None)


class EffectFilter(SimpleListFilter):
    title = _lazy("effect")
    parameter_name = "effect"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [
            (Effect.READS, _("Read-only")),
            (Effect.WRITES, _("Non-destructive write")),
            (Effect.DESTROYS, _("Destructive")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return having(queryset, Effect(chosen)) if chosen in set(Effect) else queryset


class KeyStateFilter(SimpleListFilter):
    title = _lazy("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [
            ("works", _("Active")),
            ("attention", _("Needs attention")),
            ("expired", _("Expired")),
            ("revoked", _("Revoked")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        now = timezone.now()
        over = Q(expires_at__lte=now)
        match self.value():
            case "attention":
                return queryset.filter(~over, needing_attention(now), revoked_at=None)
            case "works":
                return queryset.filter(~over, revoked_at=None)
            case "expired":
                return queryset.filter(over, revoked_at=None)
            case "revoked":
                return queryset.exclude(revoked_at=None)
        return queryset


class SinceFilter(SimpleListFilter):
    title = _lazy("time")
    parameter_name = "since"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(span, str(words)) for span, words in SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen not in SPANS:
            return queryset
        # It begins where the figures of the same time begin: they lead to this list, and both tell the same.
        return self.after(queryset, insights.period(chosen, timezone.now()).since)

    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        raise NotImplementedError


class StartedFilter(SinceFilter):
    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(started_at__gte=moment)


class LastSeenFilter(SinceFilter):
    title = _lazy("last seen")

    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(last_seen_at__gte=moment)


class CreatedFilter(SinceFilter):
    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(created_at__gte=moment)


class NotedFilter(SinceFilter):
    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(at__gte=moment)


class CodeFilter(SimpleListFilter):
    title = _lazy("code")
    parameter_name = "code"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(code, code) for code in sorted({INTERRUPTED, *(error.code for error in hub_errors.all_errors())})]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        # That it is none of those without one, the database has to be told to look into the index of the others.
        return queryset.exclude(code="").filter(code=chosen) if chosen else queryset


class ActionFilter(SimpleListFilter):
    title = _lazy("action")
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        # Asked of the newest entries only: which actions there are changes with a release, not with a row.
        newest = AuditEntry.objects.order_by("-pk")[:2_000].values_list("action", flat=True)
        return [(action, action) for action in sorted(set(newest))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset.filter(action=chosen) if chosen else queryset


class FollowedFilter(SimpleListFilter):
    """Set by a link from another page, never chosen from a list that might be endless: shown only while it holds."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        chosen = self.value()
        return [(chosen, chosen)] if chosen else []

    def has_output(self) -> bool:
        return self.value() is not None


class ToolFilter(FollowedFilter):
    title = _lazy("tool")
    parameter_name = "tool"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(tool_name=self.value()) if self.value() else queryset


class ConnectionFilter(FollowedFilter):
    title = _lazy("connection")
    parameter_name = "connection"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.exclude(connection="").filter(connection=self.value()) if self.value() else queryset


class GroupFilter(FollowedFilter):
    title = _lazy("issue")
    parameter_name = "group"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        chosen = self.value()
        group = ErrorGroup.objects.filter(pk=chosen).first() if chosen else None
        return [(chosen, str(group or chosen))] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(group=self.value()) if self.value() else queryset


class ActorFilter(FollowedFilter):
    title = _lazy("actor")
    parameter_name = "actor"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(actor=self.value()) if self.value() else queryset


class SubjectFilter(FollowedFilter):
    title = _lazy("subject")
    parameter_name = "subject"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(subject=self.value()) if self.value() else queryset
