"""Connections: accounts at upstreams. A secret is write-only; a test says whether the connection works."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_POST

from tools_app import governance, sources
from tools_app.admin import links, theme
from tools_app.admin.governed import FailuresTold, GovernedAdmin, actor
from tools_app.admin.lists import RecordList
from tools_app.catalog import catalog, connections
from tools_app.governance import probes
from tools_app.governance.connections import CONNECTION
from tools_app.models import Call, Connection
from tools_app.sdk.accounts import MOST_OPTION, ConnectionKind, ConnectionOption, OptionValue
from tools_app.sdk.errors import ValidationError

MOST_SHOWN: Final = 10
# What every connection has, beside the options that its pack declares.
PLAIN: Final = tuple(part for part in CONNECTION if part != "options")
OPTION: Final = "option_"


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    """What is asked for. `governance` judges it and makes the connection; the form never saves."""

    pack = forms.ChoiceField(
        label=gettext_lazy("Source"),
        choices=lambda: [(pack, f"{kind.title} – {pack}") for pack, kind in sorted(_kinds().items())],
        widget=theme.Select,
        help_text=gettext_lazy("The source whose tools use this connection."),
    )
    secret = forms.CharField(
        label=gettext_lazy("Secret"),
        required=False,
        strip=True,
        widget=theme.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("The API key or token for this service. Stored encrypted and never shown."),
    )

    class Meta:
        model = Connection
        fields = ("name", *PLAIN)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None:
            self.fields["secret"].help_text = _("Stored. Leave empty to keep it. Required again if you change the URL.")
            self.initial.update({_field(option): value for option, value in _options_of(self.instance)})

    def decided(self) -> dict[str, Any]:
        """What `governance` is asked to make of it, beside the secret. An option left empty gets its default back."""
        cleaned = self.cleaned_data
        options = {
            name.removeprefix(OPTION): None if value == "" else value
            for name, value in cleaned.items()
            if name.startswith(OPTION) and value != self.initial[name]
        }
        return {part: cleaned[part] for part in PLAIN} | ({"options": options} if options else {})

    @sensitive_variables()
    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if cleaned is None or self.errors:
            return cleaned
        # As it is stored: the form has begun to change its own.
        pk = self.instance.pk
        stored = Connection.objects.get(pk=pk) if pk else Connection(name=cleaned["name"], pack=cleaned["pack"])
        try:
            governance.check_connection(stored, secret=cleaned["secret"], **self.decided())
        except ValidationError as error:
            for problem in error.problems:
                part = problem.path.removeprefix("/").replace("options/", OPTION)
                self.add_error(part if part in self.fields else None, problem.message)
        return cleaned


class ConnectionRow(Protocol):
    """A connection with what the list shows beside it."""

    key_count: int
    kind: ConnectionKind | None


class ConnectionList(RecordList):
    """With the kind of each, which only its pack knows."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        kinds = _kinds()
        for row in self.result_list:
            cast(ConnectionRow, row).kind = kinds.get(row.pack)


@dataclass(frozen=True, slots=True)
class Started:
    """What the environment says about a pack's connection."""

    title: str
    pack: str
    identifier: str
    base: str
    fault: str
    read_only: bool
    missing: Sequence[str]


@admin.register(Connection)
class ConnectionAdmin(GovernedAdmin[Connection]):
    form = ConnectionForm
    change_list_template = "admin/tools_app/connection/change_list.html"
    list_display = ("shown_name", "pack", "condition", "tested", "last_call", "shown_keys", "changed")
    list_display_links = None
    search_fields = ("name", "pack", "url")
    search_help_text = gettext_lazy("Name, source or URL")
    ordering = ("name",)
    nothing_yet = (
        gettext_lazy("No connections yet"),
        gettext_lazy("A connection holds the URL and the key that the tools of a source use."),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tools_app.add_connection")

    def get_fields(self, request: HttpRequest, obj: Connection | None = None) -> tuple[str, ...]:
        secret = ("secret",) if obj is None or self.has_change_permission(request) else ()
        return ("name", "pack", "url", *secret, *PLAIN[1:], *self._option_fields(request, obj))

    def _option_fields(self, request: HttpRequest, obj: Connection | None) -> tuple[str, ...]:
        """Options of its pack, once the pack is chosen; read-only users see their values."""
        if obj is None or not _declared(obj):
            return ()
        if not self.has_change_permission(request):
            return ("shown_options",)
        return tuple(_field(option.name) for option in _declared(obj))

    def get_form(
        self, request: HttpRequest, obj: Connection | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm[Connection]]:
        if obj is not None and self.has_change_permission(request):
            own = {_field(option.name): _asked(option) for option in _declared(obj)}
            # As Django does it: what is only shown is no field of the form.
            kwargs["form"] = type("ConnectionForm", (ConnectionForm,), {**own, "pack": None})
        return super().get_form(request, obj, change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Connection | None = None) -> tuple[str, ...]:
        # Callers name it, and its secret was given for that upstream.
        return () if obj is None else ("name", "pack", "shown_options")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ConnectionList]:
        return ConnectionList

    def get_queryset(self, request: HttpRequest) -> QuerySet[Connection]:
        newest = Call.objects.filter(connection=OuterRef("name")).order_by("-started_at")
        return (
            super()
            .get_queryset(request)
            .annotate(
                key_count=Count("keys"),
                called_at=Subquery(newest.values("started_at")[:1]),
                call_status=Subquery(newest.values("status")[:1]),
            )
        )

    # ---------------------------------------------------------------------------------------------------- list

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {
            "started": [_started(pack, kind) for pack, kind in sorted(_kinds().items())],
            "may_test": self.has_change_permission(request),
            "test_address": links.address("connection", "test"),
        }
        return super().changelist_view(request, {**context, **(extra_context or {})})

    @admin.display(description=gettext_lazy("Connection"), ordering="name")
    def shown_name(self, connection: Connection) -> SafeString:
        address = links.address("connection", "change", connection.pk)
        return format_html(
            '<a class="hub-name" href="{}">{}</a>{}', address, connection.name, links.sub(connection.url)
        )

    @admin.display(description=gettext_lazy("State"))
    def condition(self, connection: Any) -> SafeString:
        return _state(connection, connection.kind)

    @admin.display(description=gettext_lazy("Last test"), ordering="checked_at")
    def tested(self, connection: Connection) -> SafeString:
        return _health(connection)

    @admin.display(description=gettext_lazy("Last call"))
    def last_call(self, connection: Any) -> SafeString:
        if connection.called_at is None:
            return format_html("{}", links.NOTHING)
        calls = links.address("call", "changelist", connection=connection.name)
        return format_html(
            '<a class="hub-link" href="{}">{}</a>{}',
            calls,
            links.when(connection.called_at),
            links.sub(connection.call_status),
        )

    @admin.display(description=gettext_lazy("Keys"), ordering="key_count")
    def shown_keys(self, connection: ConnectionRow) -> int:
        return connection.key_count

    @admin.display(description=gettext_lazy("Changed"), ordering="updated_at")
    def changed(self, connection: Connection) -> SafeString:
        return links.when(connection.updated_at)

    @admin.display(description=gettext_lazy("Options"))
    def shown_options(self, connection: Connection) -> str:
        words = {True: _("yes"), False: _("no")}
        shown = ((name, words[value] if isinstance(value, bool) else value) for name, value in _options_of(connection))
        return ", ".join(f"{name}: {value}" for name, value in shown)

    # ------------------------------------------------------------------------------------------------ changing

    @sensitive_variables("secret")
    def save_model(self, request: HttpRequest, obj: Connection, form: ModelForm[Connection], change: bool) -> None:
        given = cast(ConnectionForm, form).decided()
        secret = form.cleaned_data["secret"]
        if change:
            governance.change_connection(obj.name, secret=secret, actor=actor(request), **given)
        else:
            pack = form.cleaned_data["pack"]
            obj.pk = governance.create_connection(obj.name, pack, secret=secret, actor=actor(request), **given).pk

    def response_add(self, request: HttpRequest, obj: Connection, post_url_continue: str | None = None) -> HttpResponse:
        said = _(
            "Connection %(name)s created. No API key may use it until you create one that includes it. Test it now."
        )
        return self._back(request, obj, said % {"name": obj.name})

    def response_change(self, request: HttpRequest, obj: Connection) -> HttpResponse:
        said = _("%(name)s saved. Applies from the next call.") % {"name": obj.name}
        return self._back(request, obj, said)

    def _back(self, request: HttpRequest, obj: Connection, said: str) -> HttpResponse:
        self.message_user(request, said, messages.SUCCESS)
        return HttpResponseRedirect(links.address("connection", "change", obj.pk))

    def get_urls(self) -> list[URLPattern]:
        test, remove = self.admin_site.admin_view(self.test_view), self.admin_site.admin_view(self.remove_view)
        return [
            path("test/", test, name="tools_app_connection_test"),
            path("<int:pk>/remove/", remove, name="tools_app_connection_remove"),
            *super().get_urls(),
        ]

    @method_decorator(require_POST)
    def test_view(self, request: HttpRequest) -> HttpResponse:
        if not self.has_change_permission(request):
            raise PermissionDenied
        identifier = request.POST.get("connection", "")
        with FailuresTold(request):
            finding = probes.tested_sync(identifier, actor=actor(request))
            level = messages.SUCCESS if finding.healthy else messages.ERROR
            self.message_user(request, f"{identifier}: {finding}", level)
        stored = Connection.objects.filter(name=identifier).first() if "\x00" not in identifier else None
        view = ("change", stored.pk) if stored is not None and "from_list" not in request.POST else ("changelist",)
        return HttpResponseRedirect(links.address("connection", *view))

    @method_decorator(require_POST)
    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not request.user.has_perm("tools_app.delete_connection"):
            raise PermissionDenied
        connection = get_object_or_404(Connection, pk=pk)
        with FailuresTold(request):
            lost = governance.delete_connection(connection.name, actor=actor(request))
            said = _("%(name)s and its stored key are deleted.") % {"name": connection.name}
            if lost:
                said += " " + _("These API keys can no longer use it: %(names)s.") % {"names": ", ".join(lost)}
            self.message_user(request, said, messages.SUCCESS)
            return HttpResponseRedirect(links.address("connection", "changelist"))
        return HttpResponseRedirect(links.address("connection", "change", pk))

    # ---------------------------------------------------------------------------------------------------- page

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        asked = kwargs.get("obj")
        if isinstance(asked, Connection):
            # A form that was refused has left its values on the object: the page tells what is.
            connection = Connection.objects.get(pk=asked.pk)
            may_see_calls = request.user.has_perm("tools_app.view_call")
            calls = Call.objects.filter(connection=connection.name).defer("arguments", "result")
            context.update(
                connection=connection,
                state=_state(connection, _kinds().get(connection.pack)),
                tested=links.when(connection.checked_at),
                tools=[entry for entry in catalog.current().all if entry.pack == connection.pack],
                keys=connection.keys.order_by("name")[:MOST_SHOWN],
                calls=calls[:MOST_SHOWN] if may_see_calls else None,
                all_calls=links.address("call", "changelist", connection=connection.name),
                may_test=self.has_change_permission(request),
                test_address=links.address("connection", "test"),
                may_remove=request.user.has_perm("tools_app.delete_connection"),
            )
        return super().render_change_form(request, context, *args, **kwargs)


def _field(option: str) -> str:
    return f"{OPTION}{option}"


def _asked(option: ConnectionOption) -> forms.Field:
    """An option as a field of the form."""
    about: dict[str, Any] = {"label": _(option.title), "help_text": _(option.help), "required": False}
    if isinstance(option.default, bool):
        return forms.BooleanField(**about, widget=theme.Switch)
    if isinstance(option.default, str):
        return forms.CharField(**about, max_length=MOST_OPTION, widget=theme.TextInput)
    kind = forms.IntegerField if isinstance(option.default, int) else forms.FloatField
    return kind(**about, widget=theme.TextInput(attrs={"inputmode": "decimal"}))


def _declared(connection: Connection) -> tuple[ConnectionOption, ...]:
    kind = _kinds().get(connection.pack)
    return kind.options if kind is not None else ()


def _options_of(connection: Connection) -> tuple[tuple[str, OptionValue], ...]:
    kind = _kinds().get(connection.pack)
    return kind.settled(connection.options) if kind is not None else ()


def _kinds() -> dict[str, ConnectionKind]:
    return connections.kinds(sources.loaded())


def _started(pack: str, kind: ConnectionKind) -> Started:
    account = connections.from_environment(pack, kind)
    if account is None:
        return Started(kind.title, pack, "", "", "", False, connections.missing(kind))
    identifier = connections.identifier(account)
    return Started(kind.title, pack, identifier, account.base, account.fault, account.read_only, ())


def _state(connection: Connection, kind: ConnectionKind | None) -> SafeString:
    if not connection.enabled:
        return links.mark("quiet", _("off"))
    if fault := connections.fault(connection, kind):
        return format_html("{}{}", links.mark("bad", _("misconfigured")), links.sub(fault))
    return links.mark("good", _("on, read-only") if connection.read_only else _("on"))


def _health(connection: Connection) -> SafeString:
    if connection.healthy is None:
        return format_html('<span class="hub-quiet">{}</span>', _("not tested"))
    mark = links.mark("good", _("active")) if connection.healthy else links.mark("bad", _("failing"))
    return format_html("{} {}{}", mark, links.when(connection.checked_at), links.sub(connection.health))
