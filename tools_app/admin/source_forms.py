"""The forms of sources outside: adding one, and changing its origin. `governance` validates and saves."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from django import forms
from django.db import DatabaseError
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.admin.governed import BUSY, sentences
from tools_app.models import Connection, Source
from tools_app.models.sources import PREFIX
from tools_app.sdk.errors import ToolError, ValidationError

log = logging.getLogger("tools_app.admin")

HTTP: Final = Source.Kind.MCP_HTTP
COMMAND: Final = Source.Kind.MCP_STDIO
DOCUMENT: Final = Source.Kind.OPENAPI
# Submitted by the button that saves nothing, and shows the words of a command.
CHECK: Final = "_check"
MOST_COMMAND: Final = 33_000
MOST_LOCATION: Final = 2_000
MOST_PATTERN: Final = 500
MOST_PASSWORD: Final = 4_096

_DECLARES: Final = (
    ("elicitation", _lazy("Questions to people (elicitation)")),
    ("sampling", _lazy("Completions by the agent’s model (sampling)")),
    ("roots", _lazy("Directories of the agent (roots)")),
)


def words_of(text: str) -> list[str]:
    """The words of a command: one per line, or those of a single line as a shell would split it.

    Raises:
        django.forms.ValidationError: a quote is not closed.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        return lines
    try:
        return shlex.split(lines[0])
    except ValueError:
        problem = _("A quotation mark is not closed. Close it, or write one word per line.")
        raise forms.ValidationError(problem) from None


def text_of(words: Sequence[str]) -> str:
    """The text that `words_of` splits into these words."""
    text = "\n".join(words)
    plain = all(word and word == word.strip() and len(word.splitlines()) == 1 for word in words)
    return text if plain and len(words) > 1 else shlex.join(words)


class CommandField(forms.CharField):
    def clean(self, value: Any) -> Any:
        return words_of(super().clean(value))


class SourceForm(forms.Form):
    """A form that `governance` validates and saves."""

    def styled(self) -> None:
        for field in self.fields.values():
            if not isinstance(field.widget, (forms.CheckboxInput, forms.CheckboxSelectMultiple, forms.RadioSelect)):
                field.widget.attrs["class"] = f"hub-input {field.widget.attrs.get('class', '')}".rstrip()

    def saved(self, save: Callable[[], object]) -> bool:
        """Save a valid form; what `governance` refuses becomes errors of the form. False: nothing was saved."""
        if CHECK in self.data or not self.is_valid():
            return False
        try:
            save()
        except ToolError as error:
            self._refuse(error)
        except DatabaseError:
            log.exception("a change in the admin failed")
            self.add_error(None, str(BUSY))
        return not self.errors

    def _refuse(self, error: ToolError) -> None:
        problems = error.problems if isinstance(error, ValidationError) else ()
        for problem in problems:
            part = problem.path.strip("/").partition("/")[0]
            # What to do about it, where that is not only to correct the field.
            has_step = len(problems) == 1 and error.next_step != type(error).default_next_step
            message = f"{problem.message}. {error.next_step}" if has_step else problem.message
            self.add_error(part if part in self.fields else None, message)
        if not problems:
            self.add_error(None, sentences(error))


def reason_field() -> forms.CharField:
    return forms.CharField(
        label=_lazy("Reason"),
        required=False,
        max_length=500,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        help_text=_lazy("Optional, recorded in the audit log."),
    )


def name_field() -> forms.CharField:
    return forms.CharField(
        label=_lazy("Name"),
        max_length=16,
        validators=[PREFIX],
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}),
        help_text=_lazy("2 to 16 lowercase letters and numbers, the first a letter. It is never changed or reused."),
    )


class OriginForm(SourceForm):
    """What a connection to a source outside depends on."""

    location = forms.CharField(
        label=_lazy("URL"),
        required=False,
        max_length=MOST_LOCATION,
        widget=forms.URLInput(
            attrs={"placeholder": "https://mcp.example.com/mcp", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text=_lazy("The address of its MCP endpoint, without keys or passwords. Store those as a connection."),
    )
    internal = forms.BooleanField(
        label=_lazy("Internal address"),
        required=False,
        help_text=_lazy("The server may have a private address, and may be reached over plain http."),
    )
    command = CommandField(
        label=_lazy("Command"),
        required=False,
        max_length=MOST_COMMAND,
        widget=forms.Textarea(attrs={"rows": 4, "autocomplete": "off", "spellcheck": "false", "class": "hub-code"}),
        help_text=_lazy(
            "The program and its arguments: one line as in a shell, or one word per line. No shell runs it: variables, "
            "pipes and wildcards have no effect. Name a version (server@1.2.3), so that an update is your decision."
        ),
    )
    start = forms.ChoiceField(
        label=_lazy("Start"),
        choices=[
            (Source.Start.ON_DEMAND, _lazy("On demand: at the first call, until it is idle")),
            (Source.Start.ALWAYS, _lazy("Always: with the hub")),
        ],
        initial=Source.Start.ON_DEMAND,
        required=False,
        widget=forms.Select,
    )
    per_session = forms.BooleanField(
        label=_lazy("Session for each agent"),
        required=False,
        help_text=_lazy("For servers that keep state, such as a browser: agents do not share it."),
    )
    connection = forms.ChoiceField(
        label=_lazy("Connection"),
        required=False,
        help_text=_lazy("The hub lists and tests the tools with this account. None: without credentials."),
    )
    declares = forms.MultipleChoiceField(
        label=_lazy("What the server may ask for"),
        choices=_DECLARES,
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_lazy("Select only what you know the server needs: some change their tools with it."),
    )
    failure_pattern = forms.CharField(
        label=_lazy("Failure pattern"),
        required=False,
        max_length=MOST_PATTERN,
        help_text=_lazy(
            "For servers that report failures as success: a response whose text matches this regular expression "
            "counts as failed. Empty: only what the server marks as failed."
        ),
    )
    pin_defaults = forms.BooleanField(
        label=_lazy("Defaults need approval"),
        required=False,
        initial=True,
        help_text=_lazy("Off: a changed default of a parameter needs no approval."),
    )
    password = forms.CharField(
        label=_lazy("Your password"),
        required=False,
        max_length=MOST_PASSWORD,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        help_text=_lazy("A command runs as the user of this hub. Enter your own password to confirm it."),
    )
    reason = reason_field()

    def __init__(self, request: HttpRequest, source: Source | None = None, data: Any = None) -> None:
        self._request = request
        self.source = source
        # Who makes the change; confirmed by the password where it is needed.
        self.actor = governance.of_user(request.user)
        super().__init__(data, initial=_initial(source) if source is not None else None)
        # A new source has none.
        own = Connection.objects.filter(pack=source.name if source is not None else "").order_by("name")
        choices = [("", _("none")), *((name, name) for name in own.values_list("name", flat=True))]
        cast(forms.ChoiceField, self.fields["connection"]).choices = choices
        for name in self._unused():
            del self.fields[name]
        if source is not None and source.kind == DOCUMENT:
            self.fields["location"].label = _lazy("Base URL")
            self.fields["location"].help_text = _lazy("Paths of the operations are appended to it.")
            self.fields["connection"].help_text = _lazy(
                "The hub reads the document with this account, if the URL of the document is on the server of the base "
                "URL. Calls use the connections of their callers. None: without credentials."
            )
        self.styled()

    def _unused(self) -> set[str]:
        """Fields that this user or this source does not have."""
        if self.source is not None and self.source.kind == DOCUMENT:
            # It has no sessions.
            return {"command", "start", "password", "per_session", "declares"}
        if self.source is None or self.source.kind != COMMAND:
            return {"command", "start", "password"}
        return {"location", "internal"} | (set() if may_command(self._request) else {"command", "password"})

    @property
    def is_command(self) -> bool:
        return self.source is not None and self.source.kind == COMMAND

    def needs_password(self) -> bool:
        """True if the form names a command that is not the stored one."""
        if not self.is_command or "command" not in self.fields:
            return False
        return self.source is None or self.cleaned_data["command"] != self.source.command

    def command_words(self) -> list[str]:
        """The words of the entered command, also if something else in the form is wrong."""
        return list(self.cleaned_data.get("command") or ()) if self.is_bound and not self.errors.get("command") else []

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and CHECK not in self.data and self.needs_password():
            self._confirm(cleaned["password"])
        return cleaned

    @sensitive_variables("password")
    def _confirm(self, password: str) -> None:
        """The user enters the password again. A wrong one is audited, and limited like signing in."""
        if not getattr(self._request.user, "has_usable_password", lambda: False)():
            self.add_error("password", _("Your account has no password. Use `toolhub source` on the hub’s machine."))
            return
        if not password:
            self.add_error("password", _("This field is required."))
            return
        try:
            self.actor = governance.confirmed(self._request.user, password)
        except ToolError as error:
            self.add_error("password", sentences(error))

    def values(self) -> dict[str, Any]:
        """The parts for `governance`."""
        values = {name: value for name, value in self.cleaned_data.items() if name != "password"}
        if not values.get("start", True):
            values["start"] = Source.Start.ON_DEMAND
        return values


class AddForm(OriginForm):
    """A new source outside."""

    name = name_field()
    kind = forms.ChoiceField(
        label=_lazy("Source type"),
        choices=[
            (HTTP, _lazy("MCP server over HTTP")),
            (COMMAND, _lazy("MCP server started by a command on this machine")),
        ],
        initial=HTTP,
        widget=forms.RadioSelect,
    )
    field_order = ("name", "kind")

    def _unused(self) -> set[str]:
        # A connection belongs to a source, which does not exist yet.
        later = {"connection", "pin_defaults"}
        return later if may_command(self._request) else later | {"kind", "command", "start", "password"}

    @property
    def is_command(self) -> bool:
        return bool(self.cleaned_data.get("kind") == COMMAND)

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        needed = "command" if self.is_command else "location"
        if needed not in self.errors and not self.cleaned_data.get(needed):
            self.add_error(needed, _("This field is required."))
        return super().clean()

    def values(self) -> dict[str, Any]:
        values = {"kind": HTTP, **super().values()}
        # Hidden fields of the other kind may have kept what was entered before.
        unused = ("location", "internal") if self.is_command else ("command", "start")
        return {name: value for name, value in values.items() if name not in unused}


def may_command(request: HttpRequest) -> bool:
    return actions.SOURCE_COMMAND.permits(request.user)


def _initial(source: Source) -> dict[str, Any]:
    return {
        "location": source.location,
        "command": text_of(source.command),
        "internal": source.internal,
        "start": source.start,
        "per_session": source.per_session,
        "connection": source.connection.name if source.connection is not None else "",
        "declares": [name for name, is_declared in source.declares.items() if is_declared],
        "failure_pattern": source.failure_rule.get("pattern", ""),
        "pin_defaults": source.pin_defaults,
    }
