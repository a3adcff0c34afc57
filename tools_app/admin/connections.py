"""Connections: accounts at upstreams. Secrets are write-only; a test checks the connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, cast

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links, sign_ins, theme
from tools_app.admin.governed import FailuresAsMessages, actor, require
from tools_app.admin.lists import Column
from tools_app.admin.sign_ins import SignInAdmin
from tools_app.catalog import accounts, catalog, connections
from tools_app.catalog import forms as connection_forms
from tools_app.catalog import sign_ins as sign_in_states
from tools_app.governance import probes
from tools_app.governance.connections import CONNECTION
from tools_app.models import Call, Connection, Source
from tools_app.sdk.accounts import (
    MOST_NAMES,
    MOST_OPTION,
    PER_USER,
    ConnectionKind,
    ConnectionOption,
    OptionValue,
)
from tools_app.sdk.errors import ValidationError

MOST_SHOWN: Final = 10
# Fields of the connections of packs, without the options of its pack, and of those of sources outside.
PLAIN: Final = tuple(part for part in CONNECTION if part not in ("form", "options"))
OUTSIDE: Final = ("read_only", "enabled")
OPTION: Final = "option_"
# Fields for the names and values of a secret, and how many empty ones a page offers.
NAME, VALUE = "secret_name_", "secret_value_"
EMPTY_ROWS: Final = 3

Form = Connection.Form


class ConnectionForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    """The form of a connection. `governance` validates and saves it; the form never saves."""

    pack = forms.ChoiceField(
        label=gettext_lazy("Source"),
        choices=lambda: list(_sources()),
        widget=theme.Select,
        help_text=gettext_lazy("The source whose tools use this connection."),
    )
    form = forms.ChoiceField(
        label=gettext_lazy("Form"),
        choices=Form.choices,
        required=False,
        widget=theme.Select,
        help_text=gettext_lazy("How the secret is sent to a source outside the hub. Packs decide themselves."),
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
        fields = ("name", "form", *PLAIN)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for number, name in enumerate(self.instance.names, 1):
            self.initial[f"{NAME}{number}"] = name
        if self.instance.pk is not None and "secret" in self.fields:
            self.fields["secret"].help_text = _("Stored. Leave empty to keep it. Required again if you change the URL.")
            self.initial.update({_field(option): value for option, value in _options_of(self.instance)})
        if self.instance.form in Connection.OAUTH:
            self.initial.update({_field(option): value for option, value in self.instance.options.items()})

    def changes(self) -> dict[str, Any]:
        """The changes for `governance`, without the secret. An empty option is reset to its default."""
        cleaned = self.cleaned_data
        if cleaned.get("form") or (self.instance.pk is not None and self.instance.form):
            chosen = ("form", "url", "allow_http", "timeout_ms") if self.instance.pk is None else ()
            form = cleaned.get("form") or self.instance.form
            names = connection_forms.options_of(Form(form)) if form in Connection.OAUTH else ()
            oauth_options = {name: cleaned[_field(name)] or None for name in names if _field(name) in cleaned}
            changed = {"options": oauth_options} if any(oauth_options.values()) or self.instance.options else {}
            return {part: cleaned[part] for part in (*chosen, *OUTSIDE) if part in cleaned} | changed
        options = {
            name.removeprefix(OPTION): None if value == "" else value
            for name, value in cleaned.items()
            # A new connection also has the fields of the forms of OAuth.
            if name.startswith(OPTION) and name in self.initial and value != self.initial[name]
        }
        return {part: cleaned[part] for part in PLAIN} | ({"options": options} if options else {})

    @sensitive_variables()
    def values(self) -> str | dict[str, str | None]:
        """The secret for `governance`: a text, or values by name. An empty value keeps what is stored."""
        cleaned, stored = self.cleaned_data, self.instance.names if self.instance.pk is not None else []
        pairs = {
            cleaned[field].strip(): cleaned[f"{VALUE}{field.removeprefix(NAME)}"]
            for field in self.fields
            if field.startswith(NAME) and cleaned[field].strip()
        }
        values: dict[str, str | None] = {name: value for name, value in pairs.items() if value or name not in stored}
        if f"{NAME}1" in self.fields:
            values |= {name: None for name in stored if name not in pairs}
        return values or str(cleaned.get("secret", ""))

    @sensitive_variables()
    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        if cleaned is None or self.errors:
            return cleaned
        # Read again: the form has already changed its own instance.
        pk = self.instance.pk
        stored = Connection.objects.get(pk=pk) if pk else Connection(name=cleaned["name"], pack=cleaned["pack"])
        try:
            governance.check_connection(stored, secret=self.values(), **self.changes())
        except ValidationError as error:
            for problem in error.problems:
                part = problem.path.removeprefix("/").replace("options/", OPTION)
                self.add_error(part if part in self.fields else None, problem.message)
        return cleaned


class ConnectionRow(Protocol):
    """A connection with the columns of the list."""

    key_count: int
    kind: ConnectionKind | None
    places: accounts.Places


@dataclass(frozen=True, slots=True)
class EnvironmentConnection:
    """A pack's connection from environment variables."""

    title: str
    pack: str
    identifier: str
    base: str
    fault: str
    read_only: bool
    missing: Sequence[str]


@admin.register(Connection)
class ConnectionAdmin(SignInAdmin):
    form = ConnectionForm
    managed_editable: ClassVar = frozenset({"enabled"})
    change_list_template = "admin/tools_app/connection/change_list.html"
    list_display = ("shown_name", "pack", "condition", "last_test", "last_call", "shown_keys", "changed")
    list_display_links = None
    search_fields = ("name", "pack", "url")
    search_help_text = gettext_lazy("Name, source or URL")
    ordering = ("name",)
    posts: ClassVar = {
        "test": "test/",
        "remove": "<int:pk>/remove/",
        "sign_in": "<int:pk>/sign-in/",
        "sign_out": "<int:pk>/sign-out/",
    }
    views: ClassVar = {"signed_in": "signed-in/"}
    nothing_yet = (
        gettext_lazy("No connections yet"),
        gettext_lazy("A connection holds the URL and the key that the tools of a source use."),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return actions.CONNECTION_CREATE.permits(request.user)

    def get_fields(self, request: HttpRequest, obj: Connection | None = None) -> tuple[str | tuple[str, ...], ...]:
        may_change = obj is None or self.has_change_permission(request)
        chosen = _chosen_form(request) if obj is None else None
        rows = [(f"{NAME}{number}", f"{VALUE}{number}") for number in _rows(obj, chosen)] if may_change else []
        if chosen is not None:
            secret = ("secret",) if chosen == Form.BEARER else tuple(rows)
            return ("name", "pack", "form", *secret, *_oauth_fields(None, chosen), *OUTSIDE)
        if obj is not None and obj.form:
            secret = ("shown_names",) if not may_change else ("secret",) if obj.form == Form.BEARER else tuple(rows)
            oauth = tuple(_oauth_fields(obj)) if may_change else ("shown_oauth_options",) if obj.options else ()
            return ("name", "pack", "form", "url", *secret, "shown_references", *oauth, *OUTSIDE)
        text = ("secret",) if may_change else ()
        form = ("form",) if obj is None else ()
        oauth = tuple(_oauth_fields(None)) if obj is None else ()
        return ("name", "pack", *form, "url", *text, *rows, *oauth, *PLAIN[1:], *self._option_fields(request, obj))

    def _option_fields(self, request: HttpRequest, obj: Connection | None) -> tuple[str, ...]:
        """Options of its pack, once the pack is chosen; read-only users see their values."""
        if obj is None or not _declared_options(obj):
            return ()
        if not self.has_change_permission(request):
            return ("shown_options",)
        return tuple(_field(option.name) for option in _declared_options(obj))

    def get_form(
        self, request: HttpRequest, obj: Connection | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm[Connection]]:
        own: dict[str, Any] = {}
        chosen = _chosen_form(request) if obj is None else None
        fixed = connection_forms.FIXED.get(chosen) if chosen is not None else None
        for number in _rows(obj, chosen):
            own[f"{NAME}{number}"] = forms.CharField(
                label=_("Name"),
                required=False,
                max_length=200,
                initial=fixed[number - 1] if fixed else "",
                widget=theme.TextInput(attrs={"autocomplete": "off"}),
            )
            own[f"{VALUE}{number}"] = forms.CharField(
                label=_("Value"),
                required=False,
                strip=True,
                widget=theme.PasswordInput(attrs={"autocomplete": "new-password"}),
                help_text=_VALUE_HELP if number == 1 else "",
            )
        own |= _oauth_fields(obj, chosen)
        if obj is not None and self.has_change_permission(request):
            own |= {_field(option.name): _form_field(option) for option in _declared_options(obj)}
            # As in Django: read-only fields are not fields of the form.
            own |= {"pack": None, "form": None}
            if obj.form and obj.form != Form.BEARER:
                own["secret"] = None
        if chosen is not None:
            own["form"] = forms.ChoiceField(
                label=_("Form"),
                choices=[(chosen, chosen.label)],
                widget=theme.Select,
                help_text=_other_forms(request, chosen),
            )
        if obj is None or self.has_change_permission(request):
            kwargs["form"] = type("ConnectionForm", (ConnectionForm,), own)
        return super().get_form(request, obj, change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Connection | None = None) -> tuple[str, ...]:
        # Callers use the name, and the secret belongs to that upstream.
        if obj is None:
            return ()
        return (
            ("name", "pack", "form", "url", "shown_names", "shown_references", "shown_oauth_options")
            if obj.form
            else ("name", "pack", "shown_options")
        )

    def complete_rows(self, request: HttpRequest, rows: Iterable[Connection]) -> None:
        kinds, places = _kinds(), accounts.places()  # Only the pack knows the kind of its connections.
        for connection in rows:
            row = cast(ConnectionRow, connection)
            row.kind, row.places = connections.kind_of(connection, kinds), places

    def get_queryset(self, request: HttpRequest) -> QuerySet[Connection]:
        newest = Call.objects.filter(connection=OuterRef("name")).order_by("-started_at")
        return (
            super()
            .get_queryset(request)
            .prefetch_related("tokens")
            .annotate(
                key_count=Count("keys"),
                called_at=Subquery(newest.values("started_at")[:1]),
                call_status=Subquery(newest.values("status")[:1]),
            )
        )

    # ---------------------------------------------------------------------------------------------------- list

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        return {
            "environment_connections": [
                _environment_connection(pack, kind) for pack, kind in sorted(_kinds().items()) if not kind.optional
            ],
            "may_test": actions.CONNECTION_TEST.permits(request.user),
            "test_address": links.address("connection", "test"),
        }

    shown_name = Column[Connection](
        gettext_lazy("Connection"),
        lambda one: links.named(
            links.address("connection", "change", one.pk), one.name, one.url or one.get_form_display()
        ),
        "name",
    )
    condition = Column[Any](gettext_lazy("State"), lambda one: _state(one, one.kind, one.places))
    last_test = Column[Connection](gettext_lazy("Last test"), lambda connection: _health(connection), "checked_at")

    @admin.display(description=gettext_lazy("Last call"))
    def last_call(self, connection: Any) -> SafeString:
        if connection.called_at is None:
            return format_html("{}", links.NOTHING)
        calls = links.address("call", "changelist", connection=connection.name)
        return links.with_sub(links.link(calls, links.when(connection.called_at)), connection.call_status)

    shown_keys = Column[ConnectionRow](gettext_lazy("Keys"), lambda connection: connection.key_count, "key_count")
    changed = Column[Connection](gettext_lazy("Changed"), lambda one: links.when(one.updated_at), "updated_at")

    @admin.display(description=gettext_lazy("Options"))
    def shown_options(self, connection: Connection) -> str:
        words = {True: _("yes"), False: _("no")}
        pairs = ((name, words[value] if isinstance(value, bool) else value) for name, value in _options_of(connection))
        return ", ".join(f"{name}: {value}" for name, value in pairs)

    @admin.display(description=gettext_lazy("Options"))
    def shown_oauth_options(self, connection: Connection) -> str:
        return ", ".join(f"{name}: {value}" for name, value in sorted(connection.options.items()))

    @admin.display(description=gettext_lazy("Names"))
    def shown_names(self, connection: Connection) -> str:
        return ", ".join(connection.names)

    @admin.display(description=gettext_lazy("Refers to"))
    def shown_references(self, connection: Connection) -> str:
        return ", ".join(connection.references) or _("none: the values are stored here")

    # ------------------------------------------------------------------------------------------------ changing

    @sensitive_variables("secret")
    def save_model(self, request: HttpRequest, obj: Connection, form: ModelForm[Connection], change: bool) -> None:
        changes, secret = cast(ConnectionForm, form).changes(), cast(ConnectionForm, form).values()
        if change:
            governance.change_connection(obj.name, secret=secret, actor=actor(request), **changes)
        else:
            pack = form.cleaned_data["pack"]
            obj.pk = governance.create_connection(obj.name, pack, secret=secret, actor=actor(request), **changes).pk

    def response_add(self, request: HttpRequest, obj: Connection, post_url_continue: str | None = None) -> HttpResponse:
        message = _("Connection %(name)s created. No API key may use it until you add it to one. Test it now.")
        self.message_user(request, message % {"name": obj.name}, messages.SUCCESS)
        return HttpResponseRedirect(links.address("connection", "change", obj.pk))

    def test_view(self, request: HttpRequest) -> HttpResponse:
        require(request, actions.CONNECTION_TEST)
        identifier = request.POST.get("connection", "")
        with FailuresAsMessages(request):
            outcome = probes.test_sync(identifier, actor=actor(request))
            level = messages.SUCCESS if outcome.healthy else messages.ERROR
            self.message_user(request, f"{identifier}: {outcome}", level)
        stored = Connection.objects.filter(name=identifier).first() if "\x00" not in identifier else None
        view = ("change", stored.pk) if stored is not None and "from_list" not in request.POST else ("changelist",)
        return HttpResponseRedirect(links.address("connection", *view))

    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.CONNECTION_DELETE)
        connection = get_object_or_404(Connection, pk=pk)
        with FailuresAsMessages(request):
            key_names = governance.delete_connection(connection.name, actor=actor(request))
            message = _("%(name)s and its stored key are deleted.") % {"name": connection.name}
            if key_names:
                message += " " + _("These API keys can no longer use it: %(names)s.") % {"names": ", ".join(key_names)}
            self.message_user(request, message, messages.SUCCESS)
            return HttpResponseRedirect(links.address("connection", "changelist"))
        return HttpResponseRedirect(links.address("connection", "change", pk))

    # ---------------------------------------------------------------------------------------------------- page

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], form_object: Connection | None) -> None:
        if form_object is not None:
            # A rejected form has changed the object; show the stored values.
            connection = Connection.objects.get(pk=form_object.pk)
            may_see_calls = actions.CALLS_READ.permits(request.user)
            calls = Call.objects.filter(connection=connection.name).defer("arguments", "result")
            context.update(
                connection=connection,
                state=_state(connection, connections.kind_of(connection, _kinds())),
                last_test=links.when(connection.checked_at),
                tools=[entry for entry in catalog.current().all if entry.pack == connection.pack],
                keys=connection.keys.order_by("name")[:MOST_SHOWN],
                calls=calls[:MOST_SHOWN] if may_see_calls else None,
                all_calls=links.address("call", "changelist", connection=connection.name),
                may_test=actions.CONNECTION_TEST.permits(request.user),
                test_address=links.address("connection", "test"),
                may_see_keys=actions.KEYS_READ.permits(request.user),
                may_remove=actions.CONNECTION_DELETE.permits(request.user),
                **sign_ins.context_of(request, connection),
            )


_VALUE_HELP: Final = gettext_lazy(
    "Headers, query parameters or variables; “user” and “password” for a user; “client_id” and “client_secret” for "
    "OAuth, if a client was created for the hub. A value can contain "
    "${TOOLHUB_SECRET_NAME} or ${file:NAME}. Empty: keep what is stored."
)


def _oauth_fields(connection: Connection | None, chosen: Form | None = None) -> dict[str, forms.Field]:
    """The options of the form of a connection, as fields: of all forms, if none is chosen yet."""
    if connection is None and chosen is None:
        possible = sorted(Connection.OAUTH)
    else:
        possible = [Form(connection.form)] if connection is not None and connection.form else [chosen] if chosen else []
    names = dict.fromkeys(name for form in possible for name in connection_forms.options_of(form))
    return {_field(name): _oauth_field(name) for name in names}


def _oauth_field(name: str) -> forms.Field:
    label, help_text = _OAUTH_WORDS[name]
    if name == PER_USER:
        return forms.BooleanField(label=label, help_text=help_text, required=False, widget=theme.Switch)
    return forms.CharField(
        label=label, help_text=help_text, required=False, max_length=MOST_OPTION, widget=theme.TextInput
    )


_OAUTH_WORDS: Final = {
    connection_forms.SCOPES: (
        gettext_lazy("Scopes"),
        gettext_lazy("OAuth: what to ask for, with spaces between. Empty: what the source says."),
    ),
    connection_forms.ISSUER: (
        gettext_lazy("Authorization server"),
        gettext_lazy("OAuth: the URL of the issuer. Empty: the one that the source names."),
    ),
    connection_forms.TOKEN_URL: (
        gettext_lazy("Token URL"),
        gettext_lazy("OAuth with client id and secret: where tokens come from, if the source names no server."),
    ),
    PER_USER: (
        gettext_lazy("Each caller signs in"),
        gettext_lazy("OAuth: every key and user has a sign-in of its own. Off: all callers use one."),
    ),
}


def _chosen_source(request: HttpRequest) -> Source | None:
    """The source outside for which a connection is created, if the address of the page names it."""
    name = request.GET.get("pack", "")
    rows = Source.objects.filter(kind__in=Source.OUTSIDE, removed_at=None)
    return None if "\0" in name else rows.filter(name=name).first()


def _chosen_form(request: HttpRequest) -> Form | None:
    """Its form: that of the address, else the usual one. None: the page has to offer all."""
    if (source := _chosen_source(request)) is None:
        return None
    possible, wanted = connection_forms.forms_of(source.kind), request.GET.get("form", "")
    if wanted in possible:
        return Form(wanted)
    return Form.BEARER if Form.BEARER in possible else possible[0]


def _other_forms(request: HttpRequest, chosen: Form) -> SafeString:
    """Links to the same page for other forms: it has the fields of one."""
    source = _chosen_source(request)
    others = [form for form in connection_forms.forms_of(source.kind) if form != chosen] if source is not None else []
    if source is None or not others:
        return format_html("{}", _("How the secret is sent."))
    pairs = ((links.address("connection", "add", pack=source.name, form=form), form.label) for form in others)
    return format_html(
        "{} {}", _("Other forms:"), format_html_join(", ", '<a class="hub-link" href="{}">{}</a>', pairs)
    )


def _rows(connection: Connection | None, chosen: Form | None = None) -> range:
    """The numbers of the fields for names and values."""
    if chosen is Form.OAUTH:
        return range(1, 3)
    if chosen is not None and chosen in connection_forms.FIXED:
        return range(0) if chosen is Form.BEARER else range(1, len(connection_forms.FIXED[chosen]) + 1)
    if connection is None:
        return range(1, EMPTY_ROWS + 1)
    if connection.form in ("", Form.BEARER):
        return range(0)
    if connection.form == Form.OAUTH:
        return range(1, 3)
    more = 0 if connection.form in (Form.BASIC, Form.CLIENT_CREDENTIALS) else EMPTY_ROWS
    return range(1, min(len(connection.names) + more, MOST_NAMES) + 1)


def _sources() -> Iterator[tuple[str, str]]:
    """The packs and the sources outside that can have connections, each with a label."""
    titles = {pack: kind.title for pack, kind in _kinds().items() if not kind.optional}
    yield from ((pack, f"{title} – {pack}") for pack, title in sorted(titles.items()))
    for source in Source.objects.filter(kind__in=Source.OUTSIDE, removed_at=None).order_by("name"):
        yield source.name, f"{source.name} – {source.get_kind_display()}"


def _field(option: str) -> str:
    return f"{OPTION}{option}"


def _form_field(option: ConnectionOption) -> forms.Field:
    """An option as a field of the form."""
    about: dict[str, Any] = {"label": _(option.title), "help_text": _(option.help), "required": False}
    if isinstance(option.default, bool):
        return forms.BooleanField(**about, widget=theme.Switch)
    if isinstance(option.default, str):
        return forms.CharField(**about, max_length=MOST_OPTION, widget=theme.TextInput)
    kind = forms.IntegerField if isinstance(option.default, int) else forms.FloatField
    return kind(**about, widget=theme.TextInput(attrs={"inputmode": "decimal"}))


def _declared_options(connection: Connection) -> tuple[ConnectionOption, ...]:
    kind = _kinds().get(connection.pack)
    return kind.options if kind is not None else ()


def _options_of(connection: Connection) -> tuple[tuple[str, OptionValue], ...]:
    kind = _kinds().get(connection.pack)
    return kind.settled(connection.options) if kind is not None else ()


def _kinds() -> dict[str, ConnectionKind]:
    return catalog.current().connection_kinds


def _environment_connection(pack: str, kind: ConnectionKind) -> EnvironmentConnection:
    account = accounts.from_environment(pack, kind)
    if account is None:
        return EnvironmentConnection(kind.title, pack, "", "", "", False, accounts.missing(kind))
    identifier = accounts.identifier(account)
    return EnvironmentConnection(kind.title, pack, identifier, account.base, account.fault, account.read_only, ())


def _state(connection: Connection, kind: ConnectionKind | None, places: accounts.Places | None = None) -> SafeString:
    if not connection.enabled:
        return links.mark("quiet", _("off"))
    if fault := connections.fault(connection, kind, places):
        return links.with_sub(links.mark("bad", _("misconfigured")), fault)
    sign_in = sign_in_states.state_of(connection)
    if sign_in is not None and sign_in.state in ("sign_in_required", "failing"):
        return links.with_sub(sign_ins.mark(sign_in), sign_in.error)
    return links.mark("good", _("on, read-only") if connection.read_only else _("on"))


def _health(connection: Connection) -> SafeString:
    if connection.healthy is None:
        return links.quiet(_("not tested"))
    mark = links.mark("good", _("active")) if connection.healthy else links.mark("bad", _("failing"))
    return links.with_sub(format_html("{} {}", mark, links.when(connection.checked_at)), connection.health)
