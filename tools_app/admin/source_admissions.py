"""Admission tests of sources outside in the admin: run, shown, exported."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links, source_trials
from tools_app.admin.governed import actor, posted, require, sentences
from tools_app.admin.source_origins import SourceOrigins
from tools_app.models import Admission, Source
from tools_app.sdk.errors import ToolError

# By check: what it is called here.
TITLES: Final = {
    "start": _lazy("Starts and lists"),
    "eras": _lazy("Eras of the protocol"),
    "output": _lazy("Standard output has only messages"),
    "end": _lazy("Ends at the end of input"),
    "children": _lazy("Leaves no process"),
    "files": _lazy("Writes only in its own directories"),
    "start_time": _lazy("Start, cold and warm"),
    "memory": _lazy("Memory"),
    "secrets": _lazy("Secrets it asks for"),
    "tokens": _lazy("Tokens of its list"),
    "schemas": _lazy("Schemas"),
    "names": _lazy("Names and parameters"),
    "wording": _lazy("Wording"),
    "annotations": _lazy("Annotations"),
    "stability": _lazy("Lists are stable"),
    "arguments": _lazy("Validates its arguments"),
}
# By state: tone and word.
STATES: Final = {
    "passed": ("good", _lazy("passed")),
    "finding": ("warn", _lazy("finding")),
    "not_tried": ("", _lazy("not tried")),
}


class SourceAdmissions(SourceOrigins):
    posts: ClassVar = {**SourceOrigins.posts, "admit": "<int:pk>/admit/"}
    views: ClassVar = {**SourceOrigins.views, "admission": "<int:pk>/admission/"}

    def admit_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Run the test, or wait for the one that runs, and show its report."""
        require(request, actions.SOURCE_ADMIT)
        source = self._outside(request, pk)
        who, calls = actor(request), posted(request, "call_read_only") == "1"
        error, trial = "", None
        try:
            trial = source_trials.run(
                "admit",
                source.name,
                source.epoch,
                lambda: governance.admit_source(source.name, call_read_only=calls, actor=who),
            )
        except ToolError as problem:
            error = sentences(problem)
        waits = trial is not None and trial.result is None
        seconds = trial.seconds if trial is not None else 0
        return self._report(request, source, error=error, waits=waits, seconds=seconds, calls_read_only=calls)

    def admission_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The last report; with `?format=json` as a file."""
        require(request, actions.SOURCES_READ)
        source = self._outside(request, pk)
        row = _latest(source)
        if row is None or request.GET.get("format") != "json":
            return self._report(request, source)
        response = HttpResponse(json.dumps(_exported(row), indent=2), content_type="application/json")
        response["Content-Disposition"] = f'attachment; filename="admission-{source.name}-{row.tested_at:%Y%m%d}.json"'
        return response

    def _report(self, request: HttpRequest, source: Source, **context: Any) -> HttpResponse:
        address = links.address("source", "admission", source.pk)
        return self.page(
            request,
            "source/admission.html",
            _("Admission test of %(name)s") % {"name": source.name},
            **card(source, request),
            source=source,
            address=links.address("source", "change", source.pk),
            export_address=f"{address}?format=json",
            **context,
        )


def card(source: Source, request: HttpRequest) -> dict[str, Any]:
    """The last report, as the page of the source and that of the report show it."""
    row = _latest(source)
    lines = [] if row is None else [_line(line) for line in row.report["lines"]]
    return {
        "admission": row,
        "admission_lines": lines,
        "admission_findings": [line for line in lines if line["is_finding"]],
        "admission_is_outdated": row is not None and row.epoch != source.epoch,
        "admission_changes": row.report["changes"] if row is not None else (),
        "may_admit": actions.SOURCE_ADMIT.permits(request.user),
        "admit_address": links.address("source", "admit", source.pk),
        "admission_address": links.address("source", "admission", source.pk),
    }


def _latest(source: Source) -> Admission | None:
    return Admission.objects.filter(source=source).first()


def _line(line: dict[str, Any]) -> dict[str, Any]:
    tone, word = STATES[line["state"]]
    return {
        **line,
        "title": TITLES.get(line["check"], line["title"]),
        "mark": links.mark(tone, str(word)),
        "is_finding": line["state"] == "finding",
    }


def _exported(row: Admission) -> dict[str, Any]:
    about = {"source": row.source.name, "epoch": row.epoch, "server": row.server, "tested_by": row.tested_by}
    return {**about, "tested_at": row.tested_at.isoformat(), **row.report}
