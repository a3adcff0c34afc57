"""API keys: created, shown once and revoked here. Only a hash is stored, so a key cannot be looked up later."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, ClassVar, Final, Protocol, cast

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import key_words, links
from tools_app.admin.filters import KeyStateFilter
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, require
from tools_app.admin.key_form import KINDS, KeyForm, connection_choices
from tools_app.admin.lists import Column
from tools_app.models import Agent, ApiKey, Call
from tools_app.models.keys import KeyQuerySet, after
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
    list_display = ("name", "shown_prefix", "shown_scopes", "state", "last_used", "expires", "owner")
    list_filter = (KeyStateFilter,)
    list_select_related = ("owner",)
    search_fields = ("name", "prefix")
    search_help_text = gettext_lazy("Name or prefix")
    ordering = ("name",)
    actions = ("revoke",)
    posts: ClassVar = {
        "revoke": "<int:pk>/revoke/",
        "rotate": "<int:pk>/rotate/",
        "connections": "<int:pk>/connections/",
    }
    nothing_yet = (
        gettext_lazy("No API keys yet"),
        gettext_lazy("Clients that connect over HTTP need one. Agents on this machine do not."),
    )
    readonly_fields = (
        "shown_prefix", "state", "shown_scopes", "shown_toolsets", "shown_connections", "shown_kinds", "asks",
        "shown_rate", "owner", "created", "rotated", "expires", "revoked", "last_used",
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return actions.KEY_CREATE.permits(request.user)

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str | tuple[str, ...], ...]:
        if obj is not None:
            return ("name", *self.readonly_fields)
        rate = ("rate_calls", "rate_seconds")
        return ("name", "scopes", "toolsets", "connections", "kinds", "asks", rate, "last_day")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        return () if obj is None else ("name", *self.readonly_fields)

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        # Keys can be rotated, revoked and given other connections; the rest is fixed, so the page has no form.
        return obj is None and super().has_change_permission(request)

    # -------------------------------------------------------------------------------------------------- making

    @sensitive_variables("secret")
    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm[ApiKey], change: bool) -> None:
        day: date | None = form.cleaned_data["last_day"]
        _, may_write, may_destroy = KINDS[form.cleaned_data["kinds"]]
        rate = (form.cleaned_data["rate_calls"], form.cleaned_data["rate_seconds"])
        key, secret = governance.create_key(
            obj.name,
            actor=actor(request),
            scopes=form.cleaned_data["scopes"],
            toolsets=[toolset.name for toolset in form.cleaned_data["toolsets"]],
            connections=form.cleaned_data["connections"],
            may_write=may_write,
            may_destroy=may_destroy,
            asks=form.cleaned_data["asks"],
            rate=None if None in rate else rate,
            expires_at=None if day is None else after(day),
            owner=request.user,
        )
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
            key=key,
            secret=secret,
            previous=self.previous(key),
            sentences=key_words.permissions(key),
            list_address=links.address("apikey", "changelist"),
        )

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

    # --------------------------------------------------------------------------------------------- connections

    def connections_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.KEY_CHANGE)
        key = get_object_or_404(ApiKey, pk=pk)
        names = [name.replace("\x00", "") for name in request.POST.getlist("connections")]
        with FailuresAsMessages(request):
            if governance.change_key(key, connections=names, actor=actor(request)):
                message = _("%(name)s saved. Applies from the next call.")
                self.message_user(request, message % {"name": key.name}, messages.SUCCESS)
            else:
                self.message_user(request, _("%(name)s is unchanged.") % {"name": key.name}, messages.INFO)
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
                months=key_words.usage(key, now) if may_see_calls else None,
                agents=Agent.objects.connected().filter(caller_id=caller)[:MOST_SHOWN]
                if actions.AGENTS_READ.permits(request.user)
                else (),
                graces=[(hours, grace_words(hours)) for hours in GRACES],
                connection_choices=[(name, words, name in key.connection_names) for name, words in connection_choices()]
                if actions.KEY_CHANGE.permits(request.user) and key.usable(now)
                else (),
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

    @admin.display(description=gettext_lazy("Rate limit"))
    def shown_rate(self, key: ApiKey) -> str:
        if key.rate is None:
            return _("hub default")
        values = {"most": f"{key.rate.most:,}", "seconds": f"{key.rate.seconds:,g}"}
        return _("%(most)s per %(seconds)s s") % values

    def get_queryset(self, request: HttpRequest) -> QuerySet[ApiKey]:
        return cast(KeyQuerySet, super().get_queryset(request)).with_stops()

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
        lambda key: links.when(key.expires_at) if key.expires_at else _("never"),
        F("expires_at").asc(nulls_last=True),
    )
    created = Column[ApiKey](gettext_lazy("Created"), lambda key: links.in_full(key.created_at))
    rotated = Column[ApiKey](gettext_lazy("Rotated"), lambda key: links.in_full(key.rotated_at))
    revoked = Column[ApiKey](gettext_lazy("Revoked"), lambda key: links.in_full(key.revoked_at))


def grace_words(hours: int) -> str:
    """How long the previous secret stays valid."""
    if not hours:
        return _("no")
    if hours < 24:
        return ngettext("for %(number)s hour", "for %(number)s hours", hours) % {"number": hours}
    return ngettext("for %(number)s day", "for %(number)s days", hours // 24) % {"number": hours // 24}
