"""How lists are narrowed down. Every choice is a link, so it works without a script and can be shared."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from tools_app import catalog, errors
from tools_app.admin.states import State, within
from tools_app.models import AuditEntry

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
        return self.after(queryset, timezone.now() - SPANS[chosen][1]) if chosen in SPANS else queryset

    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        raise NotImplementedError


class StartedFilter(SinceFilter):
    def after(self, queryset: QuerySet[Any], moment: Any) -> QuerySet[Any]:
        return queryset.filter(started_at__gte=moment)


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


class SubjectFilter(FollowedFilter):
    title = "subject"
    parameter_name = "subject"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(subject=self.value()) if self.value() else queryset
