"""Filters of lists. Every choice is a link, so it works without a script and can be shared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from django.contrib.admin import AllValuesFieldListFilter, ModelAdmin, SimpleListFilter
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app.access.actions import ACTIONS, PAYLOADS_SEARCH
from tools_app.admin.key_words import IDLE, SOON, attention_filter
from tools_app.admin.states import SOURCE_WORDS, WORDS, Effect, State, with_effect, within
from tools_app.catalog import catalog, source_states
from tools_app.catalog.source_states import SourceState
from tools_app.journal import insights
from tools_app.journal.lease import INTERRUPTED
from tools_app.models import Call, ErrorGroup, ToolRecord
from tools_app.sdk import hub_errors

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Rows = QuerySet[Any]

# How many a filter offers.
MOST_PEOPLE: Final = 50
SPANS: Final = {
    "1h": _lazy("Last hour"),
    "24h": _lazy("Last 24 hours"),
    "7d": _lazy("Last 7 days"),
    "30d": _lazy("Last 30 days"),
}


class CategoryFilter(AllValuesFieldListFilter):
    """Tools of sources outside have no category."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        for choice in super().choices(changelist):
            yield {**choice, "display": choice["display"] or _("none")}


class ChoiceFilter(SimpleListFilter):
    """A choice of `words`; values that are not among them are ignored."""

    title: StrOrPromise = _lazy("state")
    parameter_name = "state"
    words: ClassVar[Mapping[Any, StrOrPromise]]
    default: StrOrPromise = ""
    """The name of the first choice, if it is not “All”: `restricted` gets the value None for it."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(str(value), capfirst(str(label))) for value, label in self.words.items()]

    def choices(self, changelist: Any) -> Iterator[Any]:
        first, *other_choices = super().choices(changelist)
        yield {**first, "display": self.default or first["display"]}
        yield from other_choices

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        value = self.value() if self.value() in self.words else None
        return queryset if value is None and not self.default else self.restricted(queryset, value)

    def restricted(self, rows: Rows, value: Any) -> Rows:
        raise NotImplementedError


class StateFilter(ChoiceFilter):
    words = WORDS

    def restricted(self, rows: Rows, value: str) -> Rows:
        return within(rows, State(value), catalog.current())


class SourceStateFilter(ChoiceFilter):
    words = SOURCE_WORDS

    def restricted(self, rows: Rows, value: str) -> Rows:
        return rows.filter(source_states.having(SourceState(value)))


class StatusFilter(ChoiceFilter):
    title = _lazy("status")
    parameter_name = "status"
    words: ClassVar = {"error": _lazy("Any error"), **{status: _lazy(label) for status, label in Call.Status.choices}}

    def restricted(self, rows: Rows, value: str) -> Rows:
        return rows.filter(status__in=insights.ERRORS if value == "error" else [value])


class IssueStateFilter(ChoiceFilter):
    words: ClassVar = {
        "ignored": _lazy("Ignored"),
        "snoozed": _lazy("Snoozed"),
        "resolved": _lazy("Resolved"),
        "all": _lazy("All"),
    }
    default = _lazy("Open")

    def restricted(self, rows: Rows, value: str | None) -> Rows:
        if value == "all":
            return rows
        state = value or ErrorGroup.State.OPEN
        return rows.in_state(state, timezone.now())  # type: ignore[attr-defined, no-any-return] # only of issues


class AssigneeFilter(SimpleListFilter):
    title = _lazy("assignee")
    parameter_name = "assignee"
    # No usernames: these have no colon.
    OWN, UNASSIGNED = ":me", ":none"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        name = f"assignee__{get_user_model().USERNAME_FIELD}"
        assigned = ErrorGroup.objects.filter(assignee__isnull=False).order_by(name).values_list(name, flat=True)
        people = [(person, person) for person in assigned.distinct()[:MOST_PEOPLE]]
        return [(self.OWN, _("Me")), (self.UNASSIGNED, _("Unassigned")), *people]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        value = self.value()
        if value == self.OWN:
            return queryset.filter(assignee=request.user.pk)
        if value == self.UNASSIGNED:
            return queryset.filter(assignee=None)
        return queryset.filter((f"assignee__{get_user_model().USERNAME_FIELD}", value)) if value else queryset


class EffectFilter(ChoiceFilter):
    title = _lazy("effect")
    parameter_name = "effect"
    words: ClassVar = {
        Effect.READS: _lazy("Read-only"),
        Effect.WRITES: _lazy("Non-destructive write"),
        Effect.DESTROYS: _lazy("Destructive"),
    }

    def restricted(self, rows: Rows, value: str) -> Rows:
        return with_effect(rows, Effect(value))


class KeyStateFilter(ChoiceFilter):
    words: ClassVar = {
        "works": _lazy("Active"),
        "attention": _lazy("Needs attention"),
        "expiring": _lazy("Expires within 7 days"),
        "idle": _lazy("Unused for 30 days"),
        "unused": _lazy("Never used"),
        "expired": _lazy("Expired"),
        "revoked": _lazy("Revoked"),
    }

    def restricted(self, rows: Rows, value: str) -> Rows:
        if value == "revoked":
            return rows.exclude(revoked_at=None)
        now = timezone.now()
        is_over = Q(expires_at__lte=now)
        conditions = {
            "works": ~is_over,
            "attention": ~is_over & attention_filter(now),
            "expiring": ~is_over & Q(expires_at__lte=now + SOON),
            "idle": ~is_over & Q(last_used_at__lte=now - IDLE),
            "unused": ~is_over & Q(last_used_at=None),
            "expired": is_over,
        }
        return rows.filter(conditions[value], revoked_at=None)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of the form above a list."""

    name: str
    label: str
    type: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()


def choice(name: str, label: str, value: str, choices: Iterable[tuple[str, StrOrPromise]]) -> Field:
    return Field(name, label, "select", value, tuple((key, str(words)) for key, words in choices))


class SpanFilter(ChoiceFilter):
    """The last hours or days, also in the form above the list."""

    parameter_name = "since"
    words = SPANS

    @classmethod
    def field(cls, value: str) -> Field:
        return choice(cls.parameter_name, capfirst(str(cls.title)), value, [("", _("any")), *SPANS.items()])


def since(column: str, name: StrOrPromise = "") -> type[SpanFilter]:
    """The filter `since` for a column of times."""

    class SinceFilter(SpanFilter):
        title = name or _lazy("time")

        def restricted(self, rows: Rows, value: str) -> Rows:
            # Starts where the figures that link to this list start, so that both count the same calls.
            return rows.filter((f"{column}__gte", insights.period(value, timezone.now()).since))

    return SinceFilter


class WhereFilter(ChoiceFilter):
    """Where a search looks. Who may not read arguments can have a link with it, which changes nothing for them."""

    title = _lazy("search also in")
    parameter_name = "in"
    ARGUMENTS = "arguments"
    words: ClassVar = {ARGUMENTS: _lazy("Arguments")}

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return super().lookups(request, model_admin) if PAYLOADS_SEARCH.permits(request.user) else []

    def restricted(self, rows: Rows, value: str) -> Rows:
        return rows


class CodeFilter(SimpleListFilter):
    title = _lazy("code")
    parameter_name = "code"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(code, code) for code in sorted({INTERRUPTED, *(error.code for error in hub_errors.all_errors())})]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        value = self.value()
        # Repeats the condition of the partial index, so that the database uses it.
        return queryset.exclude(code="").filter(code=value) if value else queryset


class ActionFilter(SimpleListFilter):
    title = _lazy("action")
    parameter_name = "action"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(event, event) for event in sorted({action.event for action in ACTIONS if action.event})]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        value = self.value()
        return queryset.filter(action=value) if value else queryset


class MadeByFilter(ChoiceFilter):
    title = _lazy("made by")
    parameter_name = "by"
    words: ClassVar = {"people": _lazy("People"), "programs": _lazy("Keys and agents"), "system": _lazy("System")}

    def restricted(self, rows: Rows, value: str) -> Rows:
        return rows.made_by(value)  # type: ignore[attr-defined, no-any-return] # only of audit entries


class LinkFilter(SimpleListFilter):
    """Set only by links from other pages, as its choices could be endless; shown while active."""

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        value = self.value()
        return [(value, self.label(value))] if value else []

    def has_output(self) -> bool:
        return self.value() is not None

    def label(self, value: str) -> str:
        return value


def by_link(
    parameter: str, name: StrOrPromise, condition: Callable[[str], Q], words: Callable[[str], str] = str
) -> type[LinkFilter]:
    class ByLink(LinkFilter):
        title = name
        parameter_name = parameter

        def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
            value = self.value()
            return queryset.filter(condition(value)) if value else queryset

        def label(self, value: str) -> str:
            return words(value)

    return ByLink


ToolFilter: Final = by_link("tool", _lazy("tool"), lambda name: Q(tool_name=name))
SourceFilter: Final = by_link("source", _lazy("source"), lambda name: Q(source__name=name, retired_at=None))
# Of calls: the tools that the source has now, as the figures of sources count them.
CallSourceFilter: Final = by_link(
    "source",
    _lazy("source"),
    lambda name: Q(tool_name__in=ToolRecord.objects.filter(source__name=name).values("name")),
)
ActorFilter: Final = by_link("actor", _lazy("actor"), lambda actor: Q(actor=actor))
SubjectFilter: Final = by_link("subject", _lazy("subject"), lambda subject: Q(subject=subject))
# Repeats the condition of the partial index, so that the database uses it.
ConnectionFilter: Final = by_link(
    "connection", _lazy("connection"), lambda name: ~Q(connection="") & Q(connection=name)
)
GroupFilter: Final = by_link(
    "group",
    _lazy("issue"),
    lambda fingerprint: Q(group=fingerprint),
    lambda fingerprint: str(ErrorGroup.objects.filter(pk=fingerprint).first() or fingerprint),
)
