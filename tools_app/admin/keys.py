"""API keys: made here, shown once, revoked here. The key itself is never stored, so nobody can look it up later."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any, Final, Protocol, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from tools_app import governance
from tools_app.admin import links, theme
from tools_app.admin.filters import KeyStateFilter
from tools_app.admin.governed import FailuresTold, GovernedAdmin, actor
from tools_app.models import ApiKey, Call, Connection, Toolset
from tools_app.models.keys import after, default_scopes
from tools_app.reach import ENVIRONMENT

MOST_SHOWN: Final = 10
LAST_YEAR: Final = 9998

SCOPE_WORDS: Final = {
    "tools:list": "see which tools there are",
    "tools:read": "read what a tool takes and returns",
    "tools:execute": "call tools",
    "tools:manage": "switch tools and set their limits",
    "admin:*": "everything, without limits",
}


class _Created(Protocol):
    """A key that was made a moment ago, with the key itself."""

    secret: str


# How it is asked for and shown, and what that is in the columns `may_write` and `may_destroy`.
KINDS: Final = {
    "all": ("All kinds", True, True),
    "write": ("Tools that read or write, and destroy nothing", True, False),
    "read": ("Only tools that read", False, False),
}


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    """What a new key is asked for. `governance` makes the key; the form never saves."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope, f"{scope} – {SCOPE_WORDS.get(scope, scope)}") for scope in governance.SCOPES],
        initial=default_scopes,
        widget=theme.CheckboxSelectMultiple,
        help_text="What whoever holds the key may do. Fewer is safer.",
    )
    toolsets = forms.ModelMultipleChoiceField(
        queryset=Toolset.objects.all(),
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text="Outside of these, no tool exists for the key. None: every tool there is.",
    )
    connections = forms.MultipleChoiceField(
        choices=lambda: [(ENVIRONMENT, f"{ENVIRONMENT} – what the hub was started with"), *_connections()],
        initial=[ENVIRONMENT],
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text="The accounts at upstreams that its calls may use, and no others.",
    )
    kinds = forms.ChoiceField(
        choices=[(kind, words) for kind, (words, _, _) in KINDS.items()],
        initial="all",
        widget=theme.RadioSelect,
        help_text="What a tool says of itself counts. One that says nothing may destroy.",
    )
    last_day = forms.DateField(
        required=False,
        widget=theme.DateInput,
        label="Last day",
        help_text="The key works until the end of this day (UTC). Empty: until it is revoked.",
    )

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "rate_calls", "rate_seconds")

    def clean_last_day(self) -> date | None:
        day: date | None = self.cleaned_data["last_day"]
        if day is not None and day < timezone.now().date():
            raise forms.ValidationError("That day is over.")
        if day is not None and day.year > LAST_YEAR:
            raise forms.ValidationError(f"At most until the end of {LAST_YEAR}.")
        return day

    def clean_name(self) -> str:
        return str(self.cleaned_data["name"]).strip()


def _connections() -> Iterator[tuple[str, str]]:
    for name, pack in Connection.objects.order_by("pack", "name").values_list("name", "pack"):
        yield name, f"{name} – {pack}"


@admin.register(ApiKey)
class KeyAdmin(GovernedAdmin[ApiKey]):
    form = KeyForm
    list_display = ("name", "shown_prefix", "shown_scopes", "state", "last_used", "expires", "owner")
    list_filter = (KeyStateFilter,)
    list_select_related = ("owner",)
    search_fields = ("name", "prefix")
    search_help_text = "Name or start of the key"
    ordering = ("name",)
    actions = ("revoke",)
    nothing_yet = ("No key yet", "Whoever comes over HTTP needs one; an agent on this machine does not.")
    readonly_fields = (
        "shown_prefix", "state", "shown_scopes", "shown_toolsets", "shown_connections", "shown_kinds", "shown_rate",
        "owner", "created", "expires", "revoked", "last_used",
    )  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.add_apikey")

    def get_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str | tuple[str, ...], ...]:
        if obj is not None:
            return ("name", *self.readonly_fields)
        return ("name", "scopes", "toolsets", "connections", "kinds", ("rate_calls", "rate_seconds"), "last_day")

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        return () if obj is None else ("name", *self.readonly_fields)

    def has_change_permission(self, request: HttpRequest, obj: ApiKey | None = None) -> bool:
        # Keys change by being revoked. The page of one has nothing to save: what a key may do is decided once.
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
            rate=None if None in rate else rate,
            expires_at=None if day is None else after(day),
            owner=request.user,
        )
        obj.pk = key.pk
        obj.refresh_from_db()
        # On the object of this one request: nothing outlives the answer that shows it.
        cast(_Created, obj).secret = secret

    def save_related(self, request: HttpRequest, form: ModelForm[ApiKey], formsets: Any, change: bool) -> None:
        """`governance` has done that."""

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        """The one page that shows the key: no redirect, no message, nothing that is stored on the way."""
        context = {
            **self.admin_site.each_context(request),
            "title": "Key created",
            "opts": self.opts,
            "key": obj,
            "secret": cast(_Created, obj).secret,
            "kinds": self.shown_kinds(obj),
            "list_address": links.address("apikey", "changelist"),
        }
        return TemplateResponse(request, "admin/tools_app/apikey/created.html", context)

    # ------------------------------------------------------------------------------------------------ revoking

    def get_urls(self) -> list[URLPattern]:
        revoke = self.admin_site.admin_view(self.revoke_view)
        return [path("<int:pk>/revoke/", revoke, name="tools_app_apikey_revoke"), *super().get_urls()]

    @method_decorator(require_POST)
    def revoke_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        key = get_object_or_404(ApiKey, pk=pk)
        with FailuresTold(request):
            if governance.revoke_key(key, actor=actor(request)):
                said = f"{key.name} is revoked; the next request with it is refused."
                self.message_user(request, said, messages.SUCCESS)
            else:
                self.message_user(request, f"{key.name} was revoked already.", messages.INFO)
        return HttpResponseRedirect(links.address("apikey", "change", pk))

    @admin.action(description="Revoke", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """Asks first: a revoked key cannot be brought back."""
        keys = list(queryset.filter(revoked_at=None))
        if not keys:
            self.message_user(request, "These keys are revoked already.", messages.INFO)
            return None
        if "confirmed" in request.POST:
            with FailuresTold(request):
                ended = [key.name for key in keys if governance.revoke_key(key, actor=actor(request))]
                self.message_user(request, f"Revoked: {', '.join(ended) or 'none'}.", messages.SUCCESS)
            return None
        context = {
            **self.admin_site.each_context(request),
            "title": "Revoke keys",
            "opts": self.opts,
            "keys": keys,
            "list_address": links.address("apikey", "changelist"),
        }
        return TemplateResponse(request, "admin/tools_app/apikey/revoke.html", context)

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        key = kwargs.get("obj")
        if isinstance(key, ApiKey):
            caller = f"key:{key.pk}"
            may_see_calls = request.user.has_perm("tools_app.view_call")
            context.update(
                key=key,
                may_revoke=key.revoked_at is None and self.has_change_permission(request),
                calls=Call.objects.filter(caller_id=caller).defer("arguments", "result")[:MOST_SHOWN]
                if may_see_calls
                else None,
                all_calls=links.address("call", "changelist", caller=caller),
            )
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description="Starts with", ordering="prefix")
    def shown_prefix(self, key: ApiKey) -> str:
        return f"thub_{key.prefix}_…"

    @admin.display(description="Scopes")
    def shown_scopes(self, key: ApiKey) -> SafeString:
        return format_html_join(" ", '<span class="hub-tag">{}</span>', ((scope,) for scope in key.scopes))

    @admin.display(description="Toolsets")
    def shown_toolsets(self, key: ApiKey) -> SafeString:
        named = [(links.address("toolset", "change", toolset.pk), toolset.name) for toolset in key.toolsets.all()]
        if not named:
            return format_html("{}", "none: every tool there is")
        return format_html_join(" ", '<a class="hub-tag" href="{}">{}</a>', named)

    @admin.display(description="Connections")
    def shown_connections(self, key: ApiKey) -> SafeString:
        named = [(ENVIRONMENT,)] if key.uses_environment else []
        shown = format_html_join(" ", '<span class="hub-tag">{}</span>', named)
        mine = [(links.address("connection", "change", one.pk), one.name) for one in key.connections.all()]
        bound = format_html_join(" ", '<a class="hub-tag" href="{}">{}</a>', mine)
        return format_html("{} {}", shown, bound) if named or mine else format_html("{}", "none")

    @admin.display(description="Kinds of tools")
    def shown_kinds(self, key: ApiKey) -> str:
        may = (key.may_write, key.may_destroy)
        return next(words for words, *kinds in KINDS.values() if tuple(kinds) == may)

    @admin.display(description="Rate limit")
    def shown_rate(self, key: ApiKey) -> str:
        return f"{key.rate.most:,} requests in {key.rate.seconds:,g} s" if key.rate else "what the settings say"

    @admin.display(description="State", ordering=F("revoked_at").asc(nulls_first=True))
    def state(self, key: ApiKey) -> SafeString:
        if key.revoked_at is not None:
            return links.mark("quiet", f"revoked {links.ago(key.revoked_at)}")
        state = key.state(timezone.now())
        return links.mark("good" if state == "works" else "warn", state)

    @admin.display(description="Last used", ordering=F("last_used_at").desc(nulls_last=True))
    def last_used(self, key: ApiKey) -> SafeString | str:
        return links.when(key.last_used_at) if key.last_used_at else "never"

    @admin.display(description="Expires", ordering=F("expires_at").asc(nulls_last=True))
    def expires(self, key: ApiKey) -> SafeString | str:
        return links.when(key.expires_at) if key.expires_at else "never"

    @admin.display(description="Created")
    def created(self, key: ApiKey) -> str:
        return links.in_full(key.created_at)

    @admin.display(description="Revoked")
    def revoked(self, key: ApiKey) -> str:
        return links.in_full(key.revoked_at)
