"""How lists are narrowed down. Every choice is a link, so it works without a script and can be shared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from tools_app import catalog, errors, insights
from tools_app.admin.states import State, within
from tools_app.models import AuditEntry, Call, ErrorGroup

SPANS: Final = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}


class StateFilter(SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(state, state.capitalize()) for state in State]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return within(queryset, State(chosen), catalog.current()) if chosen in set(State) else queryset


class StatusFilter(SimpleListFilter):
    title = "status"
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, Any]]:
        any_error = " or ".join(insights.ERRORS)
        return [*Call.Status.choices, ("error", any_error.capitalize())]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen == "error":
            return queryset.filter(status__in=insights.ERRORS)
        return queryset.filter(status=chosen) if chosen in Call.Status.values else queryset


class ResolvedFilter(SimpleListFilter):
    """Open groups, unless something else is asked for."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [("resolved", "Resolved"), ("all", "All")]

    def choices(self, changelist: Any) -> Iterator[Any]:
        first, *others = super().choices(changelist)
        yield {**first, "display": "Open"}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "resolved":
                return queryset.exclude(resolved_at=None)
            case "all":
                return queryset
        return queryset.filter(resolved_at=None)


class EffectFilter(SimpleListFilter):
    title = "effect"
    parameter_name = "effect"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [("reads", "Only reads"), ("writes", "May write")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "reads":
                return queryset.filter(read_only=True)
            case "writes":
                return queryset.filter(read_only=False)
        return queryset


class KeyStateFilter(SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [("works", "Works"), ("expired", "Expired"), ("revoked", "Revoked")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        over = Q(expires_at__lte=timezone.now())
        match self.value():
            case "works":
                return queryset.filter(~over, revoked_at=None)
            case "expired":
                return queryset.filter(over, revoked_at=None)
            case "revoked":
                return queryset.exclude(revoked_at=None)
        return queryset


class SinceFilter(SimpleListFilter):
    title = "time"
    parameter_name = "since"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(key, words) for key, (words, _) in SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if chosen not in SPANS:
            return queryset
        now = timezone.now()
        # A day begins where the figures of a day begin: they lead to this list, and both tell the same.
        return self.after(queryset, insights.last_day(now)[0] if chosen == "24h" else now - SPANS[chosen][1])

    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        raise NotImplementedError


class StartedFilter(SinceFilter):
    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(started_at__gte=moment)


class LastSeenFilter(SinceFilter):
    title = "last seen"

    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(last_seen_at__gte=moment)


class CreatedFilter(SinceFilter):
    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(created_at__gte=moment)


class NotedFilter(SinceFilter):
    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(at__gte=moment)


class CodeFilter(SimpleListFilter):
    title = "code"
    parameter_name = "code"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(error.code, error.code) for error in errors.all_errors()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        return queryset.filter(code=chosen) if chosen else queryset


class ActionFilter(SimpleListFilter):
    title = "action"
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
    title = "tool"
    parameter_name = "tool"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(tool_name=self.value()) if self.value() else queryset


class CallerFilter(FollowedFilter):
    title = "caller"
    parameter_name = "caller"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(caller_id=self.value()) if self.value() else queryset


class ConnectionFilter(FollowedFilter):
    title = "connection"
    parameter_name = "connection"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(connection=self.value()) if self.value() else queryset


class GroupFilter(FollowedFilter):
    title = "group"
    parameter_name = "group"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        chosen = self.value()
        group = ErrorGroup.objects.filter(pk=chosen).first() if chosen else None
        return [(chosen, str(group or chosen))] if chosen else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(group=self.value()) if self.value() else queryset


class SubjectFilter(FollowedFilter):
    title = "subject"
    parameter_name = "subject"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(subject=self.value()) if self.value() else queryset
