"""API keys: created, shown once, changed and revoked here. Only a hash is stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, ClassVar, Final, Protocol, cast

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import budget_words, connecting, exports, key_words, links
from tools_app.admin.filters import KeyStateFilter
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, posted, require
from tools_app.admin.key_form import KINDS, KeyForm
from tools_app.admin.lists import Column
from tools_app.journal.budgets import limits
from tools_app.models import Agent, ApiKey, Call
from tools_app.models.keys import KeyQuerySet
from tools_app.sdk.reach import ENVIRONMENT

MOST_SHOWN: Final = 10
# Hours for which the previous secret stays valid, as the form offers them.
GRACES: Final = (0, 1, 24, 72, 168)


class _WithSecret(Protocol):
    """A newly created key with its secret."""

    secret: str


@admin.register(ApiKey)
class KeyAdmin(GovernedAdmin[ApiKey]):
    form = KeyForm
    list_display = (
        "name", "shown_prefix", "shown_kinds", "shown_toolsets", "calls", "shown_budget", "last_used", "expires",
        "state",
    )  # fmt: skip
    list_filter = (KeyStateFilter,)
    search_fields = ("name", "prefix")
    search_help_text = gettext_lazy("Name or prefix")
    ordering = ("name",)
    actions = ("revoke",)
    posts: ClassVar = {"export": "<int:pk>/export/", "revoke": "<int:pk>/revoke/", "rotate": "<int:pk>/rotate/"}
    views: ClassVar = {"first_request": "<int:pk>/first-request/"}
    nothing_yet = (
        gettext_lazy("No API keys yet"),
        gettext_lazy("Clients that connect over HTTP need one. Agents on this machine do not."),
    )
    readonly_fields = (
        "shown_prefix", "state", "owner", "created", "rotated", "expires", "revoked", "last_used", "shown_scopes",
        "shown_toolsets", "shown_connections", "shown_kinds", "asks", "shown_rate", "shown_addresses",
    )  # fmt: skip
    rights = (
        "scopes", "kinds", "tools", "toolsets", "connections", "asks", ("rate_calls", "rate_seconds"),
        ("calls_a_day", "calls_a_month"), ("tokens_a_day", "tokens_a_month"), "addresses", "last_day",
    )  # fmt: skip
    facts = ("name", "shown_prefix", "state", "owner", "created", "rotated", "expires", "last_used")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return actions.KEY_CREATE.permits(request.user)

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        if obj is None:
            return [(None, {"fields": ("name", *self.rights)})]
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ("name", *self.readonly_fields)})]
        return [(None, {"fields": self.facts}), (_("Change"), {"fields": self.rights})]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        if obj is None:
            return ()
        return self.facts if self.has_change_permission(request, obj) else ("name", *self.readonly_fields)

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        if obj is None:
            return super().has_change_permission(request)
        return actions.KEY_CHANGE.permits(request.user) and obj.usable(timezone.now())

    # -------------------------------------------------------------------------------------------------- making

    @sensitive_variables("secret")
    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool) -> None:
        rights = cast(KeyForm, form).rights()
        if change:
            governance.change_key(obj, actor=actor(request), **rights)
            return
        key, secret = governance.create_key(obj.name, actor=actor(request), owner=request.user, **rights)
        obj.pk = key.pk
        obj.refresh_from_db()
        # Only on this request's object, so that the secret does not outlive the response.
        cast(_WithSecret, obj).secret = secret

    def save_related(self, request: HttpRequest, form: ModelForm[ApiKey], formsets: Any, change: bool) -> None:
        """`governance` has saved the relations."""

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        return self._shown_once(request, obj, cast(_WithSecret, obj).secret, _("Key created"))

    @sensitive_variables("secret")
    def _shown_once(self, request: HttpRequest, key: ApiKey, secret: str, title: str) -> HttpResponse:
        """The only page that shows a secret: without redirect or message, so that it is stored nowhere."""
        return self.page(
            request,
            "apikey/created.html",
            title,
            secret=secret,
            previous=self.previous(key),
            sentences=key_words.permissions(key),
            list_address=links.address("apikey", "changelist"),
            endpoints=(at := connecting.endpoints(request)),
            snippets=connecting.snippets(at, secret),
            **connecting.context(request, key),
        )

    def first_request_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Whether the first request has arrived; the page of a new key asks for the fragment alone."""
        require(request, actions.KEYS_READ)
        context = connecting.context(request, get_object_or_404(ApiKey, pk=pk))
        if request.headers.get("X-Requested-With") == "fetch":
            return TemplateResponse(request, "admin/tools_app/connecting/first_request.html", context)
        return self.page(request, "apikey/first_request.html", _("First request"), **context)

    # ------------------------------------------------------------------------------------------------ rotating

    @sensitive_variables("secret")
    def rotate_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Replace the secret. The form names the current prefix, so submitting twice rotates once."""
        require(request, actions.KEY_ROTATE)
        key = get_object_or_404(ApiKey, pk=pk)
        hours = request.POST.get("grace", "")
        if hours not in map(str, GRACES):
            return HttpResponseBadRequest("grace must be one of the times that the form offers")
        if request.POST.get("prefix") != key.prefix:
            self.message_user(request, _("%(name)s has already been rotated.") % {"name": key.name}, messages.INFO)
            return HttpResponseRedirect(links.address("apikey", "change", pk))
        with FailuresAsMessages(request):
            secret = governance.rotate_key(key, grace=timedelta(hours=int(hours)), actor=actor(request))
            return self._shown_once(request, key, secret, _("Key rotated"))
        return HttpResponseRedirect(links.address("apikey", "change", pk))

    # ----------------------------------------------------------------------------------------------- exporting

    def export_view(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """A file with what is recorded of the calls with this key."""
        # Agents import this page at their start, and not what deletes and exports records.
        from tools_app.governance import callers

        require(request, actions.CALLER_EXPORT)
        key = get_object_or_404(ApiKey, pk=pk)
        with FailuresAsMessages(request):
            lines = callers.export_caller(f"key:{key.pk}", actor=actor(request), reason=posted(request, "reason"))
            name = f"key-{key.prefix}-{timezone.now():%Y%m%d-%H%M%S}.jsonl"
            return exports.attachment(exports.in_threads(lines), name, "application/jsonl")
        return HttpResponseRedirect(links.address("apikey", "change", pk))

    # ------------------------------------------------------------------------------------------------ revoking

    def revoke_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.KEY_REVOKE)
        key = get_object_or_404(ApiKey, pk=pk)
        with FailuresAsMessages(request):
            if governance.revoke_key(key, actor=actor(request)):
                message = _("%(name)s is revoked. Requests with it are refused from now on.")
                self.message_user(request, message % {"name": key.name}, messages.SUCCESS)
            else:
                self.message_user(request, _("%(name)s has already been revoked.") % {"name": key.name}, messages.INFO)
        return HttpResponseRedirect(links.address("apikey", "change", pk))

    @admin.action(description=gettext_lazy("Revoke"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """Asks for confirmation: revoking cannot be undone."""
        keys = list(queryset.filter(revoked_at=None))
        if not keys:
            self.message_user(request, _("These keys have already been revoked."), messages.INFO)
            return None
        if "confirmed" in request.POST:
            with FailuresAsMessages(request):
                revoked_names = [key.name for key in keys if governance.revoke_key(key, actor=actor(request))]
                message = _("Revoked: %(names)s.") % {"names": ", ".join(revoked_names) or _("none")}
                self.message_user(request, message, messages.SUCCESS)
            return None
        return self.page(
            request,
            "apikey/revoke.html",
            _("Revoke keys"),
            keys=keys,
            hidden=[*(("_selected_action", key.pk) for key in keys), ("action", "revoke")],
            button=_("Revoke"),
            cancel_address=links.address("apikey", "changelist"),
        )

    # ---------------------------------------------------------------------------------------------------- page

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], key: ApiKey | None) -> None:
        if key is not None:
            caller = f"key:{key.pk}"
            may_see_calls = actions.CALLS_READ.permits(request.user)
            now = timezone.now()
            may_change = self.has_change_permission(request)
            context.update(
                key=key,
                sentences=key_words.permissions(key),
                attention=key_words.attention(key, now),
                budget=budget_words.lines(limits({caller: key.budget}, now)[caller]),
                months=key_words.usage(key, now) if may_see_calls else None,
                agents=Agent.objects.connected().filter(caller_id=caller)[:MOST_SHOWN]
                if actions.AGENTS_READ.permits(request.user)
                else (),
                endpoints=(at := connecting.endpoints(request)),
                snippets=connecting.snippets(at) if key.usable(now) else (),
                graces=[(hours, grace_words(hours)) for hours in GRACES],
                may_edit=self.has_change_permission(request, key),
                may_export=actions.CALLER_EXPORT.permits(request.user),
                may_rotate=may_change and key.usable(now),
                may_revoke=may_change and key.revoked_at is None,
                calls=Call.objects.filter(caller_id=caller).defer("arguments", "result")[:MOST_SHOWN]
                if may_see_calls
                else None,
                all_calls=links.address("call", "changelist", caller=caller),
            )

    @admin.display(description=gettext_lazy("Prefix"), ordering="prefix")
    def shown_prefix(self, key: ApiKey) -> SafeString:
        return links.with_sub(links.whole(f"thub_{key.prefix}_…"), self.previous(key))

    def previous(self, key: ApiKey) -> str:
        """The previous secret, while it is still valid."""
        if key.previous_until is None or not key.previous_works(timezone.now()):
            return ""
        values = {"prefix": key.previous_prefix, "time": links.stamp(key.previous_until)[:16]}
        return _("previous: thub_%(prefix)s_… until %(time)s") % values

    @admin.display(description=gettext_lazy("Scopes"))
    def shown_scopes(self, key: ApiKey) -> SafeString:
        return format_html_join(" ", '<span class="hub-tag">{}</span>', ((scope,) for scope in key.scopes))

    @admin.display(description=gettext_lazy("Toolsets"))
    def shown_toolsets(self, key: ApiKey) -> str:
        tags = links.tags((links.address("toolset", "change", one.pk), one.name) for one in key.toolsets.all())
        return tags or _("all tools")

    @admin.display(description=gettext_lazy("Connections"))
    def shown_connections(self, key: ApiKey) -> str:
        environment = [(ENVIRONMENT,)] if key.uses_environment else []
        default = format_html_join(" ", '<span class="hub-tag">{}</span>', environment)
        pairs = [(links.address("connection", "change", one.pk), one.name) for one in key.connections.all()]
        return format_html("{} {}", default, links.tags(pairs)) if environment or pairs else _("none")

    @admin.display(description=gettext_lazy("Access level"))
    def shown_kinds(self, key: ApiKey) -> str:
        may = (key.may_write, key.may_destroy)
        return next(str(words) for words, *kinds in KINDS.values() if tuple(kinds) == may)

    @admin.display(description=gettext_lazy("Allowed addresses"))
    def shown_addresses(self, key: ApiKey) -> str:
        return ", ".join(key.addresses) or _("any")

    @admin.display(description=gettext_lazy("Rate limit"))
    def shown_rate(self, key: ApiKey) -> str:
        if key.rate is None:
            return _("hub default")
        values = {"most": f"{key.rate.most:,}", "seconds": f"{key.rate.seconds:,g}"}
        return _("%(most)s per %(seconds)s s") % values

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        rows = cast(KeyQuerySet, super().get_queryset(request)).with_stops()
        return rows.prefetch_related("toolsets", "connections")

    def complete_rows(self, request: HttpRequest, rows: Any) -> None:
        """One query for the calls of all keys of the page, and one for their budgets."""
        budgets = limits({f"key:{key.pk}": key.budget for key in rows}, timezone.now())
        for key in rows:
            key.limits = budgets[f"key:{key.pk}"]
        if actions.CALLS_READ.permits(request.user):
            numbers = key_words.calls_this_month(rows, timezone.now())
            for key in rows:
                key.calls_this_month = numbers.get(key.pk, 0)

    @admin.display(description=gettext_lazy("Calls this month"))
    def calls(self, key: ApiKey) -> str:
        number: int | None = getattr(key, "calls_this_month", None)
        return "–" if number is None else f"{number:,}"

    shown_budget = Column[Any](gettext_lazy("Budget"), lambda key: budget_words.shown(key.limits))

    @admin.display(description=gettext_lazy("State"), ordering=F("revoked_at").asc(nulls_first=True))
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at is not None:
            return links.mark("quiet", _("revoked %(time)s") % {"time": links.ago(key.revoked_at)})
        now = timezone.now()
        if not key.usable(now):
            return links.mark("warn", _("expired"))
        if key.stopped:
            return links.mark("bad", _("stopped"))
        notes = key_words.attention(key, now)
        return links.with_sub(links.mark("warn" if notes else "good", _("active")), "; ".join(notes))

    last_used = Column[ApiKey](
        gettext_lazy("Last used"),
        lambda key: links.when(key.last_used_at) if key.last_used_at else _("never"),
        F("last_used_at").desc(nulls_last=True),
    )
    expires = Column[ApiKey](
        gettext_lazy("Expires"),
        lambda key: _expiry(key),
        F("expires_at").asc(nulls_last=True),
    )
    created = Column[ApiKey](gettext_lazy("Created"), lambda key: links.in_full(key.created_at))
    rotated = Column[ApiKey](gettext_lazy("Rotated"), lambda key: links.in_full(key.rotated_at))
    revoked = Column[ApiKey](gettext_lazy("Revoked"), lambda key: links.in_full(key.revoked_at))


def _expiry(key: ApiKey) -> SafeString | str:
    if key.expires_at is None:
        return _("never")
    shown = links.when(key.expires_at)
    return (
        format_html('<span class="hub-mark hub-warn">{}</span>', shown)
        if key_words.ends_soon(key, timezone.now())
        else shown
    )


def grace_words(hours: int) -> str:
    """How long the previous secret stays valid."""
    if not hours:
        return _("no")
    if hours < 24:
        return ngettext("for %(number)s hour", "for %(number)s hours", hours) % {"number": hours}
    return ngettext("for %(number)s day", "for %(number)s days", hours // 24) % {"number": hours // 24}
