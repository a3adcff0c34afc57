"""Importing the servers of a client's file: first what each would become, then the ones that were chosen.

The file travels with the page, sealed: nothing of it is stored before a person has seen what it becomes.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links, phrases
from tools_app.admin.governed import GovernedAdmin, posted, require, sentences
from tools_app.admin.source_forms import MOST_PASSWORD, may_command
from tools_app.base import secrets
from tools_app.governance import imports
from tools_app.governance.imports import ImportFileError, Outcome, PlannedSource
from tools_app.models import Source
from tools_app.sdk.accounts import MOST_SECRET
from tools_app.sdk.errors import ToolError

# The limit of a form is 1 MiB.
MOST_SEALED: Final = 700_000
# A page that was left open for longer is not imported.
SECONDS: Final = 3_600
_OUTCOMES: Final = {
    Outcome.ADDED: (_lazy("can be imported"), "good"),
    Outcome.EXISTS: (_lazy("exists already"), "off"),
    Outcome.OWN: (_lazy("this hub"), "off"),
    Outcome.INCOMPLETE: (_lazy("values are missing"), "warn"),
    Outcome.REFUSED: (_lazy("not imported"), "bad"),
}


class ImportForm(forms.Form):
    """The file, as an upload or as text."""

    upload = forms.FileField(
        label=_lazy("File"),
        required=False,
        help_text=_lazy(
            "The configuration of Claude Desktop, Claude Code, Cursor, VS Code or Codex, or server.json of the MCP "
            "registry. At most 1 MiB."
        ),
    )
    text = forms.CharField(
        label=_lazy("Or its text"),
        required=False,
        max_length=MOST_SEALED,
        widget=forms.Textarea(
            attrs={"rows": 12, "autocomplete": "off", "spellcheck": "false", "class": "hub-input hub-code"}
        ),
    )
    internal = forms.BooleanField(
        label=_lazy("Internal addresses"),
        required=False,
        help_text=_lazy("The servers may have private addresses, and may be reached over plain http."),
    )

    @sensitive_variables()
    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        upload = cleaned.get("upload")
        content = upload.read(imports.MOST_BYTES + 1) if upload else (cleaned.get("text") or "").encode()
        try:
            imports.read(content)
        except ImportFileError as error:
            self.add_error(None, _("The file cannot be imported: %(reason)s.") % {"reason": error})
        cleaned["content"] = content
        return cleaned


@dataclass
class Draft:
    """What a page of a started import carries: the file and the values that were entered."""

    content: bytes = field(repr=False)
    is_internal: bool
    given: dict[str, str] = field(default_factory=dict, repr=False)

    @sensitive_variables()
    def sealed(self, user: Any) -> str:
        parts = [user.pk, self.is_internal, self.given, base64.b64encode(self.content).decode()]
        return secrets.sealed(zlib.compress(json.dumps(parts).encode()))

    @classmethod
    @sensitive_variables()
    def of(cls, text: str, user: Any) -> Draft | None:
        """None: it is too old, or another user's."""
        plain = secrets.unsealed(text, SECONDS)
        if plain is None:
            return None
        owner, is_internal, given, content = json.loads(zlib.decompress(plain))
        return cls(base64.b64decode(content), is_internal, given) if owner == user.pk else None


@dataclass(frozen=True)
class Row:
    """A server on the page; `number` is its place in the file."""

    number: int
    planned: PlannedSource
    is_chosen: bool

    @property
    def is_open(self) -> bool:
        return self.planned.outcome in (Outcome.ADDED, Outcome.INCOMPLETE)

    @property
    def mark(self) -> Any:
        words, tone = _OUTCOMES[self.planned.outcome]
        return links.mark(tone, str(words))

    @property
    def reason(self) -> str:
        return phrases.spoken(self.planned.reason)

    @property
    def warnings(self) -> list[str]:
        return phrases.all_spoken(self.planned.warnings)

    @property
    def names(self) -> list[tuple[str, bool]]:
        return [(name, name in self.planned.secret_names) for name in self.planned.value_names]


class SourceImports(GovernedAdmin[Source]):
    views: ClassVar = {"import": "import/"}

    @method_decorator(sensitive_post_parameters())
    def import_view(self, request: HttpRequest) -> HttpResponse:
        for action in (actions.SOURCE_CREATE, actions.CONNECTION_CREATE):
            require(request, action)
        if request.method == "POST" and "draft" in request.POST:
            return self._continued(request)
        form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
        if form.is_bound and form.is_valid():
            draft = Draft(form.cleaned_data["content"], form.cleaned_data["internal"])
            if len(draft.sealed(request.user)) <= MOST_SEALED:
                return self._preview(request, draft)
            form.add_error(None, _("The file is too large for this page. Use `toolhub import` on the hub’s machine."))
        return self.page(
            request,
            "source/import.html",
            _("Import sources"),
            form=form,
            cancel_address=links.address("source", "changelist"),
        )

    @sensitive_variables()
    def _continued(self, request: HttpRequest) -> HttpResponse:
        draft = Draft.of(request.POST["draft"], request.user)
        if draft is None:
            self.message_user(request, _("The page was open for too long. Select the file again."), messages.WARNING)
            return HttpResponseRedirect(links.address("source", "import"))
        _take_values(draft, request.POST)
        if "_check" in request.POST:
            return self._preview(request, draft, request.POST)
        chosen = [row for row in _rows(request, draft, request.POST) if row.is_chosen]
        if not chosen:
            return self._preview(request, draft, request.POST, error=_("Select at least one server."))
        if missing := [row.planned.entry for row in chosen if row.planned.outcome is not Outcome.ADDED]:
            error = _("Enter the missing values of %(servers)s, or do not select them.")
            return self._preview(request, draft, request.POST, error=error % {"servers": ", ".join(missing)})
        actor = governance.of_user(request.user)
        if any(row.planned.command for row in chosen):
            if not getattr(request.user, "has_usable_password", lambda: False)():
                raise PermissionDenied
            try:
                actor = governance.confirmed(request.user, request.POST.get("password", "")[:MOST_PASSWORD])
            except ToolError as problem:
                return self._preview(request, draft, request.POST, error=sentences(problem))
        return self._stored(request, chosen, actor)

    def _stored(self, request: HttpRequest, chosen: list[Row], actor: governance.Actor) -> HttpResponse:
        names = []
        for row in chosen:
            try:
                imports.import_source(row.planned, actor=actor, reason=posted(request, "reason"))
                names.append(row.planned.name)
            except ToolError as problem:
                self.message_user(request, f"{row.planned.entry}: {sentences(problem)}", messages.ERROR)
        if names:
            words = ngettext(
                "%(n)s source is imported, and off: %(names)s. Test it next.",
                "%(n)s sources are imported, and off: %(names)s. Test them next.",
                len(names),
            )
            self.message_user(request, words % {"n": len(names), "names": ", ".join(names)}, messages.SUCCESS)
        return HttpResponseRedirect(links.address("source", "changelist"))

    @sensitive_variables()
    def _preview(
        self, request: HttpRequest, draft: Draft, data: QueryDict | None = None, *, error: str = ""
    ) -> HttpResponse:
        rows = _rows(request, draft, data)
        questions = {question.name: question for row in rows if row.is_open for question in row.planned.asked}
        return self.page(
            request,
            "source/import_preview.html",
            _("Import sources"),
            rows=rows,
            notices=phrases.all_spoken(imports.read(draft.content).notices),
            questions=[
                (number, question, question.name in draft.given) for number, question in enumerate(questions.values())
            ],
            draft=draft.sealed(request.user),
            needs_password=any(row.is_open and row.planned.command for row in rows),
            may_import=any(row.is_open for row in rows),
            most_value=MOST_SECRET,
            error=error,
            again_address=links.address("source", "import"),
            cancel_address=links.address("source", "changelist"),
        )


@sensitive_variables()
def _take_values(draft: Draft, data: QueryDict) -> None:
    """An empty field keeps what was entered before: secrets are not sent back to the page."""
    for number in range(imports.MOST_SERVERS * 20):
        name = data.get(f"question-{number}")
        if name is None:
            return
        if value := data.get(f"value-{number}", "").replace("\0", ""):
            draft.given[name] = value[:MOST_SECRET]


def _rows(request: HttpRequest, draft: Draft, data: QueryDict | None) -> list[Row]:
    file = imports.read(draft.content)
    names = {
        entry: name
        for number, entry in enumerate(file.entries)
        if data is not None and (name := data.get(f"name-{number}", "").strip().replace("\0", ""))
    }
    planned = imports.plan(file, given=draft.given, names=names, internal=draft.is_internal)
    if not may_command(request):
        words = _("A server that is started by a command is imported by a superuser, or with `toolhub import`.")
        planned = [
            replace(one, outcome=Outcome.REFUSED, reason=words, missing=())
            if one.command and one.outcome in (Outcome.ADDED, Outcome.INCOMPLETE)
            else one
            for one in planned
        ]
    chosen = set(data.getlist("server")) if data is not None else None
    return [
        Row(
            number,
            one,
            one.outcome in (Outcome.ADDED, Outcome.INCOMPLETE)
            and (str(number) in chosen if chosen is not None else one.outcome is Outcome.ADDED),
        )
        for number, one in enumerate(planned)
    ]
