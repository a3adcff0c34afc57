"""What is known of sources, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tools_app import governance
from tools_app.api.source_items import AdmissionReport, ConnectionNeed, SourceDetail, SourceTest
from tools_app.governance.source_checks import shown_command
from tools_app.models import Definition, Source
from tools_app.sdk.errors import shortened
from tools_app.sources.documents import Need

MOST_LINES: Final = 100
MOST_NAMES: Final = 20
_MARKS: Final = {"passed": "ok  ", "finding": "!   ", "not_tried": "-   "}


def row(source: Source, item: dict[str, Any]) -> tuple[str, ...]:
    origin = item["error"] or item["location"] or shown_command(source.command)
    since = item["since"] or ""
    words = shortened(" ".join(str(origin).split()), 80)
    return (item["name"], item["kind"], item["state"], str(item["tools"]), since[:16].replace("T", " ") or "-", words)


def of_source(detail: SourceDetail) -> list[str]:
    lines = [f"{detail.name}: {detail.state}", f"type: {detail.kind}"]
    if detail.location and detail.kind != "openapi":
        lines.append(f"location: {detail.location}")
    if (outside := detail.outside) is not None:
        lines += [f"command: {shown_command(outside.command)}"] if outside.command else []
        lines += [f"connection: {outside.connection}"] if outside.connection else []
        lines += [f"server: {outside.server} ({outside.era})"] if outside.server else []
        lines += of_document(detail)
        lines.append(f"tokens of its tools that are on, in lists: about {outside.tokens:,}")
    if detail.error:
        lines.append(f"error: {detail.error}" + (f" (since {detail.since})" if detail.since else ""))
    lines.append(f"tools: {detail.tools}; versions that wait for approval: {detail.waiting}")
    definitions = Definition.objects.in_bulk([int(version.id) for version in detail.waiting_versions])
    for version in detail.waiting_versions:
        lines.append(f"  {version.change}: {version.tool} ({version.original_name})")
        lines += [f"    ! {finding}" for finding in version.findings]
        # What an approval lets agents read.
        if (definition := definitions.get(int(version.id))) is not None:
            lines += [f"  {line}" for line in _quoted(str(definition.body.get("description") or ""))]
    if outside is not None and outside.instructions is not None:
        state = "approved" if outside.instructions.approved else "not approved"
        lines += [f"instructions, written by others ({state}):", *_quoted(outside.instructions.text)]
    return lines


def of_test(found: SourceTest) -> list[str]:
    lines = [
        f"{found.server or 'unnamed server'}, protocol {found.era}, after {found.seconds:.1f} s",
        f"tools: {len(found.tools)} (about {found.tokens:,} tokens in lists), resources: {found.resources}, "
        f"prompts: {found.prompts}",
        *(f"  {name}" for name in found.tools),
    ]
    lines += [f"described differently at each listing: {', '.join(found.unstable)}"] if found.unstable else []
    lines += [f"problem: {problem}" for problem in found.problems]
    lines += [f"! {finding}" for finding in found.findings]
    lines += [f"client: {finding}" for finding in found.clients[:MOST_NAMES]]
    if (more := len(found.clients) - MOST_NAMES) > 0:
        lines.append(f"client: {more:,} more; --json shows all")
    lines += ["instructions, written by others:", *_quoted(found.instructions)] if found.instructions else []
    return lines


def of_document(detail: SourceDetail) -> list[str]:
    document = detail.outside.document if detail.outside is not None else None
    if document is None:
        return []
    chosen = "all" if document.selected is None else f"{len(document.selected):,}"
    lines = [
        f"document: {document.title} {document.version}, from {document.url or 'a file'}",
        f"operations: {document.operations:,} (imported: {chosen}), not supported: {document.unsupported:,}",
        f"base URL: {detail.location}",
    ]
    lines += [f"document, error: {document.error}"] if document.error else []
    lines += _needed(document.needs)
    if number := len(document.answer_findings):
        lines.append(f"operations whose answers deviate from the document: {number:,}")
    for one in document.answer_findings[:MOST_NAMES]:
        lines.append(f"  {one.operation}: {one.difference} (HTTP {one.status}; {one.count:,} answers)")
    return lines


def _needed(needs: Sequence[ConnectionNeed]) -> list[str]:
    words = [Need(need.scheme, need.form or "", tuple(need.names)).words for need in needs]
    return [f"needs a connection: {' or '.join(words)}"] if words else []


def of_preview(preview: governance.DocumentPreview) -> list[str]:
    shown = [operation for operation in preview.operations if operation.is_selected]
    lines = [
        f"{preview.title} {preview.version}, {preview.bytes:,} bytes",
        f"base URL: {preview.servers.proposal or 'give it with --url; the document names '}"
        + ("" if preview.servers.proposal else ", ".join(preview.servers.choices) or "none"),
        *_needed(ConnectionNeed.all_of(preview.needs)),
        f"operations: {len(shown):,} of {len(preview.operations):,} (about {preview.tokens:,} tokens in lists)",
    ]
    tag = ""
    for operation in sorted(shown, key=lambda operation: operation.tag):
        if operation.tag != tag:
            tag = operation.tag
            lines.append(f"{tag}:")
        lines.append(f"  {operation.key}: {operation.name}, {operation.access}, {operation.tokens:,} tokens")
        lines += [f"    ! {problem}" for problem in operation.problems]
    lines += [f"note: {note}" for note in preview.notes]
    return [*lines, *(f"not supported: {key}: {reason}" for key, reason in preview.unsupported)]


def of_admission(report: AdmissionReport) -> list[str]:
    lines = [f"{report.source}: {report.server or 'no server'}"]
    for check in report.checks:
        lines.append(f"{_MARKS[check.state]} {check.title}: {check.found}".rstrip(": "))
        lines += [f"    {detail}" for detail in check.details]
        lines += [f"    → {check.next_step}"] if check.next_step else []
    if report.compared_with:
        lines.append(f"since the last report: {'; '.join(report.changes) or 'no changes'}")
    return lines


def _quoted(text: str) -> list[str]:
    lines = text.splitlines()
    rest = ["  (more lines: read them in the admin)"] if len(lines) > MOST_LINES else []
    return [*(f"  | {line}" for line in lines[:MOST_LINES]), *rest]
