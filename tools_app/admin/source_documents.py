"""OpenAPI documents in the admin: imported after a preview, replaced, and the operations that are selected.

Nothing is stored before the operations are selected: the page of the preview carries an uploaded document with it, and
one with a URL is read again and compared.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links, phrases
from tools_app.admin.governed import GovernedAdmin, actor, posted, require, sentences
from tools_app.admin.source_forms import MOST_LOCATION, SourceForm, name_field, reason_field
from tools_app.governance import DocumentPreview, OperationPreview
from tools_app.models import Connection, Source
from tools_app.sdk.errors import Problem, ToolError, ValidationError
from tools_app.sources.documents import Need

# The rest of a request of 8 MiB is the form.
MOST_UPLOAD: Final = 8 * 1024 * 1024 - 64 * 1024
# An uploaded document in the page of its preview, compressed: a form may have 1 MiB beside its files.
MOST_CARRIED: Final = 900_000
MOST_DOCUMENT: Final = 32 * 1024 * 1024
MOST_SHOWN: Final = 5_000
MOST_UNSUPPORTED: Final = 500
OPERATION: Final = "operation"
TAG: Final = "tag"
ALL: Final = "all"
CONFIRMED: Final = "confirmed"
TOO_LARGE: Final = _lazy("The document is too large. Enter its URL, or use `toolhub source` on the hub’s machine.")
ACCESS: Final = {
    "read": ("good", _lazy("reads")),
    "write": ("warn", _lazy("writes")),
    "destructive": ("bad", _lazy("destroys")),
}


class DocumentForm(SourceForm):
    """A document: uploaded, pasted, or the URL of one."""

    upload = forms.FileField(label=_lazy("File"), required=False, help_text=_lazy("JSON or YAML, up to 8 MiB."))
    document = forms.CharField(
        label=_lazy("Text"),
        required=False,
        max_length=900_000,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "autocomplete": "off", "spellcheck": "false", "class": "hub-code"}),
        help_text=_lazy("Paste the document instead of a file."),
    )
    document_url = forms.CharField(
        label=_lazy("URL of the document"),
        required=False,
        max_length=MOST_LOCATION,
        widget=forms.URLInput(
            attrs={"placeholder": "https://api.example.com/openapi.json", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text=_lazy("Without keys or passwords. The hub reads it again every hour."),
    )
    # Of a preview: the document that it showed.
    carried = forms.CharField(required=False, max_length=MOST_CARRIED, widget=forms.HiddenInput)
    digest = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, files: Any = None) -> None:
        super().__init__(data, files)
        self.text: bytes | None = None
        self.styled()

    def clean_upload(self) -> UploadedFile[Any] | None:
        upload: UploadedFile[Any] | None = self.cleaned_data["upload"]
        if upload is not None and (upload.size or 0) > MOST_UPLOAD:
            raise forms.ValidationError(str(TOO_LARGE))
        return upload

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        upload, pasted = cleaned.get("upload"), cleaned.get("document")
        given = [part for part in (upload, pasted, cleaned.get("document_url"), cleaned.get("carried")) if part]
        if not self.errors and len(given) != 1:
            self.add_error(None, _("Choose a file, paste a text, or enter a URL: one of them."))
        elif upload:
            self.text = upload.read()
        elif pasted:
            self.text = pasted.encode()
        elif carried := cleaned.get("carried"):
            self.text = _unpacked(carried)
        return cleaned

    def source_parts(self) -> dict[str, Any]:
        """The document for `governance`."""
        return {"text": self.text, "address": self.cleaned_data["document_url"]}


class ImportForm(DocumentForm):
    """A new source from a document."""

    name = name_field()
    internal = forms.BooleanField(
        label=_lazy("Internal address"),
        required=False,
        help_text=_lazy("Document and service may have private addresses, and may be reached over plain http."),
    )
    location = forms.CharField(
        label=_lazy("Base URL"),
        required=False,
        max_length=MOST_LOCATION,
        widget=forms.URLInput(attrs={"autocomplete": "off", "spellcheck": "false", "list": "servers"}),
        help_text=_lazy("The address of the service. Paths of the operations are appended to it."),
    )
    reason = reason_field()
    field_order = ("name", "upload", "document", "document_url", "internal")


class ReplacementForm(DocumentForm):
    reason = reason_field()


@dataclass(frozen=True, slots=True)
class OperationRow:
    operation: OperationPreview
    access: SafeString
    is_selected: bool

    @property
    def problems(self) -> list[str]:
        return phrases.all_spoken(self.operation.problems)


@dataclass(frozen=True, slots=True)
class Group:
    """The operations of one tag."""

    tag: str
    rows: Sequence[OperationRow]

    @property
    def tokens(self) -> int:
        return sum(row.operation.tokens for row in self.rows)


class DocumentImports(GovernedAdmin[Source]):
    views: ClassVar = {
        "add_document": "add-document/",
        "operations": "<int:pk>/operations/",
        "document": "<int:pk>/document/",
    }

    def add_document_view(self, request: HttpRequest) -> HttpResponse:
        """The form, then the operations of its document, then the source."""
        require(request, actions.SOURCE_CREATE)
        form = ImportForm(request.POST, request.FILES) if request.method == "POST" else ImportForm()
        previews: list[DocumentPreview] = []
        address = links.address("source", "changelist")

        def look() -> None:
            values = {name: form.cleaned_data[name] for name in ("name", "internal")}
            previews.append(governance.preview_document(**form.source_parts(), **values, actor=actor(request)))

        def add() -> None:
            names = ("name", "internal", "location", "digest", "reason")
            values = {name: form.cleaned_data[name] for name in names}
            select = _selected(request, previews[0])
            governance.import_document(**form.source_parts(), **values, select=select, actor=actor(request))

        if not (form.is_bound and form.saved(look)):
            title = _("Import an OpenAPI document")
            return self._document_form(request, form, title, _("Show operations"), address)
        (preview,) = previews
        if CONFIRMED in request.POST and form.saved(add):
            words = _("%(name)s is added, and off. Test it next.") % {"name": form.cleaned_data["name"]}
            self.message_user(request, words, messages.SUCCESS)
            return HttpResponseRedirect(links.address("source", "named", name=form.cleaned_data["name"]))
        carried = _packed(form.text) if form.text is not None else ""
        if len(carried) > MOST_CARRIED:
            form.add_error(None, str(TOO_LARGE))
            return self._document_form(request, form, _("Import an OpenAPI document"), _("Show operations"), address)
        hidden = {name: form.cleaned_data[name] for name in ("name", "document_url", "internal")}
        hidden |= {"carried": carried, "digest": preview.digest}
        return self._operations(
            request,
            preview,
            _("Select operations of %(title)s") % {"title": preview.title},
            form=form,
            hidden=[(name, "on" if value is True else value) for name, value in hidden.items() if value],
            location=form.cleaned_data.get("location") or form.data.get("location") or preview.servers.proposal,
            cancel_address=links.address("source", "add_document"),
            button=_("Add source"),
        )

    def operations_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The operations of the stored document, and which of them are imported."""
        require(request, actions.SOURCE_SELECT)
        source = self._with_document(request, pk)
        back = links.address("source", "change", pk)
        try:
            preview = governance.preview_source(source.name, actor=actor(request))
            if request.method == "POST":
                return self._select(request, source, preview, back)
        except ToolError as error:
            self.message_user(request, sentences(error), messages.ERROR)
            return HttpResponseRedirect(back)
        return self._operations(
            request,
            preview,
            _("Operations of %(name)s") % {"name": source.name},
            source=source,
            selects_all=governance.selection_of(source) is None,
            cancel_address=back,
            button=_("Save"),
        )

    def _select(self, request: HttpRequest, source: Source, preview: DocumentPreview, back: str) -> HttpResponse:
        added, removed = governance.select_operations(
            source.name, _selected(request, preview), actor=actor(request), reason=posted(request, "reason")
        )
        words = []
        if added:
            words.append(
                ngettext(
                    "%(n)s operation is imported from now on.", "%(n)s operations are imported from now on.", len(added)
                )
                % {"n": f"{len(added):,}"}
            )
        if removed:
            words.append(
                ngettext(
                    "%(n)s operation is not imported any more: its calls are refused from the next list on, and the "
                    "list after it retires the tool.",
                    "%(n)s operations are not imported any more: their calls are refused from the next list on, and "
                    "the list after it retires the tools.",
                    len(removed),
                )
                % {"n": f"{len(removed):,}"}
            )
        text = " ".join(words) or _("Nothing changed.")
        self.message_user(request, text, messages.SUCCESS if words else messages.INFO)
        return HttpResponseRedirect(back)

    def document_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Replace the document of a source, or its URL."""
        require(request, actions.SOURCE_DOCUMENT)
        source = self._with_document(request, pk)
        back = links.address("source", "change", pk)
        form = ReplacementForm(request.POST, request.FILES) if request.method == "POST" else ReplacementForm()

        def replace() -> None:
            parts = {**form.source_parts(), "reason": form.cleaned_data["reason"]}
            governance.replace_document(source.name, **parts, actor=actor(request))

        if form.is_bound and form.saved(replace):
            words = _("%(name)s has a new document. Changed operations wait for approval.")
            self.message_user(request, words % {"name": source.name}, messages.SUCCESS)
            return HttpResponseRedirect(back)
        title = _("Replace the document of %(name)s") % {"name": source.name}
        return self._document_form(request, form, title, _("Replace document"), back, source=source)

    def _document_form(
        self, request: HttpRequest, form: DocumentForm, title: str, button: str, back: str, **context: Any
    ) -> HttpResponse:
        context = {"form": form, "button": button, "cancel_address": back, **context}
        return self.page(request, "source/document.html", title, **context)

    def _operations(self, request: HttpRequest, preview: DocumentPreview, title: str, **context: Any) -> HttpResponse:
        posted_keys = set(request.POST.getlist(OPERATION))
        is_import = "form" in context
        groups: dict[str, list[OperationRow]] = {}
        for operation in preview.operations[:MOST_SHOWN]:
            # Nothing is imported before it is selected.
            is_selected = operation.key in posted_keys if is_import else operation.is_selected
            tone, words = ACCESS[operation.access]
            row = OperationRow(operation, links.mark(tone, str(words)), is_selected)
            groups.setdefault(operation.tag, []).append(row)
        return self.page(
            request,
            "source/operations.html",
            title,
            preview=preview,
            facts=_facts(preview),
            groups=[Group(tag, rows) for tag, rows in sorted(groups.items())],
            unsupported=[(key, phrases.spoken(why)) for key, why in preview.unsupported[:MOST_UNSUPPORTED]],
            notes=phrases.all_spoken(preview.notes),
            more_unsupported=max(0, len(preview.unsupported) - MOST_UNSUPPORTED),
            servers=preview.servers.choices,
            **{"form": None, "source": None, "selects_all": request.POST.get("scope") == ALL, **context},
        )

    def _with_document(self, request: HttpRequest, pk: int) -> Source:
        return get_object_or_404(self.get_queryset(request), pk=pk, kind=Source.Kind.OPENAPI)


def _selected(request: HttpRequest, preview: DocumentPreview) -> list[str] | None:
    """The ticked operations, and those of ticked tags. None: all.

    Raises:
        ValidationError: nothing is selected.
    """
    if request.POST.get("scope") == ALL:
        return None
    keys, tags = set(request.POST.getlist(OPERATION)), set(request.POST.getlist(TAG))
    chosen = [operation.key for operation in preview.operations if operation.key in keys or operation.tag in tags]
    if not chosen:
        raise ValidationError(problems=[Problem("/select", _("Select at least one operation."))])
    return chosen


def _facts(preview: DocumentPreview) -> list[tuple[str, str]]:
    needs = needs_in_words(preview.needs)
    facts = [
        (_("API"), f"{preview.title} {preview.version}".strip()),
        (_("Size"), filesizeformat(preview.bytes)),
        (_("Operations"), f"{len(preview.operations):,}"),
        (_("Not supported"), f"{len(preview.unsupported):,}" if preview.unsupported else ""),
        (_("Needs a connection"), needs),
    ]
    return [(title, text) for title, text in facts if text]


def needs_in_words(needs: Iterable[Need]) -> str:
    """The connections that fit a document."""
    labels = dict(Connection.Form.choices)
    words = []
    for need in needs:
        form = str(labels[need.form]) if need.form else _("not supported")
        words.append(f"{form}: {', '.join(need.names)}" if need.names else form)
    return _(" or ").join(words)


def _packed(text: bytes) -> str:
    return base64.b64encode(zlib.compress(text, 9)).decode()


def _unpacked(carried: str) -> bytes:
    """Raises: django.forms.ValidationError."""
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(base64.b64decode(carried, validate=True), MOST_DOCUMENT)
    except (binascii.Error, zlib.error, ValueError):
        raise forms.ValidationError(_("The document is damaged. Choose the file again.")) from None
    if not inflater.eof:
        raise forms.ValidationError(str(TOO_LARGE))
    return text
