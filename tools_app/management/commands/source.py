"""Add, list, test, admit, approve, reconnect and remove sources of tools."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from django.core.management.base import CommandParser

from tools_app import engine, governance
from tools_app.api import source_items
from tools_app.api.source_items import (
    AdmissionReport,
    ConnectionNeed,
    DocumentPreview,
    SourceDetail,
    SourceItem,
    SourceTest,
)
from tools_app.governance import Actor
from tools_app.governance.source_checks import CAPABILITIES, shown_command
from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.management.tables import aligned
from tools_app.models import Definition, Source, ToolRecord, Toolset
from tools_app.sdk.errors import shortened
from tools_app.sdk.names import folded
from tools_app.sources.documents import Need
from tools_app.text import hygiene

MOST_LINES: Final = 100
MOST_NAMES: Final = 20
MOST_DOCUMENT: Final = 32 * 1024 * 1024
COLUMNS: Final = ("NAME", "TYPE", "STATE", "TOOLS", "SINCE", "ORIGIN OR ERROR")
_MARKS: Final = {"passed": "ok  ", "finding": "!   ", "not_tried": "-   "}
# Lines for people, and data.
_Answer = tuple[Sequence[str], Any]


class Command(HubCommand):
    help = (
        "Manage sources of tools, such as MCP servers and OpenAPI documents: preview, add, list, test, admit, on, off, "
        "approve, select, document, reconnect, remove. "
        "A new source is off, and none of its tools runs before you approve it."
    )
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

        def verb(name: str, words: str, *, named: bool = True, reason: bool = True) -> Any:
            own = verbs.add_parser(name, help=words, description=words)
            if named:
                own.add_argument("name", help="the source; names of its tools begin with it")
            if reason:
                own.add_argument("--reason", default="", help="recorded in the audit trail")
            own.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
            return own

        adding = "Add an MCP server (--url URL, or --command WORD…), or an OpenAPI document (--openapi FILE|URL)."
        _add_origin(verb("add", adding))
        preview = verb(
            "preview", "Show the operations of an OpenAPI document. Stores nothing.", named=False, reason=False
        )
        preview.add_argument("document", metavar="FILE|URL", help="the document; JSON or YAML")
        preview.add_argument("--name", default="", help="the source that it would be; names of its tools begin with it")
        _add_selection(preview)
        _add_internal(preview)
        listing = verb("list", "List the sources, or show one with what waits for approval.", named=False, reason=False)
        listing.add_argument("name", nargs="?", default="", help="a source")
        verb("test", "Connect to a source, and show its tools. Records none of them.", reason=False)
        admission = verb("admit", "Run a source once in isolation, and store a report: the admission test.")
        admission.add_argument(
            "--call-read-only",
            action="store_true",
            help="also call up to three tools that say they only read, with wrong arguments",
        )
        verb("on", "Switch a source on, and record its tools; they wait for approval.")
        verb("off", "Switch a source off: all calls of its tools are refused.")
        approval = verb("approve", "Approve waiting versions of tools, as listed by `toolhub source list NAME`.")
        approval.add_argument("tools", nargs="*", metavar="TOOL", help="only these; default: all that wait")
        approval.add_argument(
            "--enable",
            action="store_true",
            help="also switch the approved tools on; with TOOL arguments, also those that were approved before",
        )
        approval.add_argument(
            "--accept-hints", action="store_true", help="accept what they claim: read-only, not destructive, idempotent"
        )
        selection = verb("select", "Select the operations of an OpenAPI document that are imported as tools.")
        selection.add_argument("patterns", nargs="*", metavar="OPERATION", help=_PATTERN)
        selection.add_argument("--all", action="store_true", dest="selects_all", help="all, also later ones")
        document = verb("document", "Replace the OpenAPI document of a source. Changed tools wait for approval.")
        document.add_argument("document", metavar="FILE|URL", help="the document; JSON or YAML")
        verb("reconnect", "End the connections and processes of a source, and list it again at once.")
        verb("remove", "Remove a source: its tools are retired, its secrets deleted. Its name is never used again.")

    def handle(self, *args: Any, verb: str, as_json: bool, **options: Any) -> None:
        try:
            words, data = getattr(self, f"_{verb}")(options)
        finally:
            asyncio.run(engine.close(2))
        if as_json:
            self.stdout.write(json.dumps(data, indent=2, ensure_ascii=False))
            return
        for line in words:
            # Others wrote parts of it: nothing may control the terminal.
            self.stdout.write(hygiene.cleaned(line))

    def _add(self, options: dict[str, Any]) -> _Answer:
        name, url, command = options["name"], options["url"], list(options["command"])
        steps = f"Next: toolhub source test {name}, toolhub source on {name}, toolhub source approve {name} --enable."
        if options["openapi"]:
            return self._add_document(options, steps)
        if options["select"]:
            raise Abort("--select is for OpenAPI documents: give --openapi FILE|URL", REFUSED)
        if bool(url) == bool(command):
            raise Abort("give either --url URL, --openapi FILE|URL, or --command and the words of a command", REFUSED)
        for warning in governance.command_warnings(command):
            self.tell(f"toolhub: {warning}")
        governance.add_source(
            name,
            kind=Source.Kind.MCP_STDIO if command else Source.Kind.MCP_HTTP,
            location=url,
            command=command,
            start=Source.Start.ALWAYS if options["always"] else Source.Start.ON_DEMAND,
            internal=options["internal"],
            per_session=options["per_session"],
            declares=options["declares"],
            failure_pattern=options["failure_pattern"],
            connection=options["connection"],
            actor=governance.of_command(),
            reason=options["reason"],
        )
        return [f"{name} is added, and off. {steps}"], _as_json(_detail(name))

    def _add_document(self, options: dict[str, Any], steps: str) -> _Answer:
        name = options["name"]
        if options["command"] or options["per_session"] or options["declares"] or options["always"]:
            raise Abort("--command, --per-session, --declare and --always are for MCP servers", REFUSED)
        governance.import_document(
            name,
            **_document(options["openapi"]),
            location=options["url"],
            select=options["select"] or None,
            internal=options["internal"],
            connection=options["connection"],
            failure_pattern=options["failure_pattern"],
            actor=governance.of_command(),
            reason=options["reason"],
        )
        detail = _detail(name)
        return [f"{name} is added, and off.", *_of_document(detail), steps], _as_json(detail)

    def _preview(self, options: dict[str, Any]) -> _Answer:
        preview = governance.preview_document(
            **_document(options["document"]),
            name=options["name"],
            internal=options["internal"],
            select=options["select"] or None,
            actor=governance.of_command(),
        )
        return _previewed(preview), _as_json(DocumentPreview.shown(preview))

    def _select(self, options: dict[str, Any]) -> _Answer:
        name, patterns = options["name"], options["patterns"]
        if bool(patterns) == options["selects_all"]:
            raise Abort("give operations or patterns, or --all", REFUSED)
        added, removed = governance.select_operations(
            name, patterns or None, actor=governance.of_command(), reason=options["reason"]
        )
        words = [f"Imported from now on: {', '.join(added)}."] if added else []
        words += [f"Not imported any more: {', '.join(removed)}."] if removed else []
        words += self._listed(name) if words else ["Nothing has changed."]
        return words, {"added": added, "removed": removed}

    def _document(self, options: dict[str, Any]) -> _Answer:
        name = options["name"]
        given = _document(options["document"])
        governance.replace_document(name, **given, actor=governance.of_command(), reason=options["reason"])
        listed = self._listed(name)
        detail = _detail(name)
        return [f"{name} has a new document.", *_of_document(detail), *listed], _as_json(detail)

    def _listed(self, name: str) -> list[str]:
        """List a source now, if it is on. A hub that runs would do it within seconds."""
        if not _source(name).enabled:
            return []
        return [f"{governance.describe_source(name, actor=governance.of_command())}"]

    def _list(self, options: dict[str, Any]) -> _Answer:
        if options["name"]:
            detail = _detail(options["name"])
            return _shown(detail), _as_json(detail)
        rows = list(source_items.rows())
        data = [_as_json(SourceItem.shown(row)) for row in rows]
        return aligned([COLUMNS, *(_row(row, item) for row, item in zip(rows, data, strict=True))]), data

    def _test(self, options: dict[str, Any]) -> _Answer:
        found = SourceTest.of(governance.test_source(options["name"], actor=governance.of_command()))
        return _found(found), _as_json(found)

    def _admit(self, options: dict[str, Any]) -> _Answer:
        row = governance.admit_source(
            options["name"],
            call_read_only=options["call_read_only"],
            actor=governance.of_command(),
            reason=options["reason"],
        )
        report = AdmissionReport.shown(row)
        return _admission(report), _as_json(report)

    def _on(self, options: dict[str, Any]) -> _Answer:
        return self._switch(options, enabled=True)

    def _off(self, options: dict[str, Any]) -> _Answer:
        return self._switch(options, enabled=False)

    def _switch(self, options: dict[str, Any], *, enabled: bool) -> _Answer:
        name, actor = options["name"], governance.of_command()
        governance.change_source(name, enabled=enabled, actor=actor, reason=options["reason"])
        words = [f"{name} is {'on' if enabled else 'off'}."]
        if enabled:
            # A hub that runs would do it within seconds.
            report = governance.describe_source(name, actor=actor)
            words.append(f"{report}")
        detail = _detail(name)
        if detail.waiting:
            words.append(f"Versions that wait for approval: {detail.waiting}. See toolhub source list {name}.")
        return words, _as_json(detail)

    def _approve(self, options: dict[str, Any]) -> _Answer:
        name, tools, actor = options["name"], options["tools"], governance.of_command()
        approved = governance.approve_tools(
            name,
            tools or None,
            enable=options["enable"],
            accept_hints=options["accept_hints"],
            actor=actor,
            reason=options["reason"],
        )
        enabled = _enable(name, tools, actor, options["reason"]) if tools and options["enable"] else []
        left = [version.definition.tool.label for version in governance.waiting_versions(_source(name))]
        words = [f"Approved: {', '.join(approved)}."] if approved else []
        words += [f"Switched on: {', '.join(enabled)}."] if enabled else []
        if left and not tools:
            # Their wording could mislead an agent.
            words.append(
                f"Not approved because of findings: {', '.join(left)}. Read them, then approve these tools by name."
            )
        words = words or ["Nothing waits for approval."]
        return [*words, *_next_steps(name)], {"approved": approved, "waiting": left}

    def _reconnect(self, options: dict[str, Any]) -> _Answer:
        name = options["name"]
        governance.reconnect_source(name, actor=governance.of_command(), reason=options["reason"])
        return [f"A running hub reconnects to {name} and lists its tools again at once."], {"reconnected": name}

    def _remove(self, options: dict[str, Any]) -> _Answer:
        name = options["name"]
        tools = governance.remove_source(name, actor=governance.of_command(), reason=options["reason"])
        retired = f" Its tools are retired: {', '.join(tools)}." if tools else ""
        return [f"{name} is removed.{retired}"], {"removed": name, "tools": tools}


def _enable(name: str, tools: Sequence[str], actor: Actor, reason: str) -> list[str]:
    """Those of these tools that were approved before. Prompts and resources have no switch."""
    rows = ToolRecord.objects.present().filter(source__name=name, folded_name__in=[folded(tool) for tool in tools])
    return governance.set_enabled(list(rows.values_list("name", flat=True)), True, actor=actor, reason=reason)


def _next_steps(name: str) -> list[str]:
    """What agents still lack to call the approved tools of a source."""
    rows = ToolRecord.objects.present().filter(source__name=name, definition__approved_at__isnull=False)
    words = []
    if off := sorted(rows.filter(enabled=False).values_list("name", flat=True)):
        names = ", ".join(off[:MOST_NAMES]) + (f" and {len(off) - MOST_NAMES:,} more" if len(off) > MOST_NAMES else "")
        words.append(f"Off: {names}. To switch tools on: toolhub source approve {name} TOOL… --enable.")
    if not any(name in toolset.packs for toolset in Toolset.objects.all()):
        words.append(
            f"Agents reach its tools only by a toolset that selects them, and no toolset selects the source {name}. "
            "Add one in the admin under Toolsets; then give it to agents: toolhub addkey KEY --toolset TOOLSET, or "
            "toolhub runmcp --toolset TOOLSET."
        )
    return words


_PATTERN: Final = "its method and path, a pattern for its path or name, such as 'GET /pets*', or tag:NAME"


def _add_selection(parser: Any) -> None:
    help = f"import only these operations of a document: {_PATTERN}; repeatable"
    parser.add_argument("--select", action="append", default=[], metavar="OPERATION", help=help)


def _add_internal(parser: Any) -> None:
    parser.add_argument(
        "--internal", action="store_true", help="permit a private address and plain http for this source"
    )


def _document(given: str) -> dict[str, Any]:
    """The document that a word names: its URL, or the content of its file.

    Raises:
        Abort
    """
    if given.startswith(("http://", "https://")):
        return {"address": given}
    file = Path(given)
    try:
        if file.stat().st_size > MOST_DOCUMENT:
            raise Abort(f"{given} is larger than {MOST_DOCUMENT // 1024**2} MiB", REFUSED)
        return {"text": file.read_bytes()}
    except OSError as error:
        raise Abort(f"{given} cannot be read: {error.strerror}", REFUSED) from error


def _add_origin(parser: Any) -> None:
    parser.add_argument(
        "--url",
        default="",
        help="the address of a server over HTTP, without secrets; with --openapi, the base URL of the service",
    )
    parser.add_argument("--openapi", default="", metavar="FILE|URL", help="an OpenAPI document; JSON or YAML")
    _add_selection(parser)
    _add_internal(parser)
    parser.add_argument("--connection", default="", help="the account with which it is listed")
    parser.add_argument("--always", action="store_true", help="start the command with the hub, not at the first call")
    parser.add_argument("--per-session", action="store_true", help="a session of its own for every client session")
    parser.add_argument(
        "--declare",
        action="append",
        default=[],
        dest="declares",
        choices=CAPABILITIES,
        help="a client capability that the server may use; repeatable",
    )
    parser.add_argument(
        "--command",
        nargs=argparse.REMAINDER,
        default=[],
        metavar="WORD",
        help="program and arguments that start a server over stdio, up to the end of the line",
    )
    parser.add_argument(
        "--failure-pattern", default="", metavar="REGEX", help="results whose text matches count as failed"
    )


def _detail(name: str) -> SourceDetail:
    return source_items.detail(_source(name))


def _source(name: str) -> Source:
    """Raises: Abort."""
    row = source_items.rows().filter(name=name).first()
    if row is None:
        raise Abort(f"there is no source {shortened(name)!r}; see toolhub source list")
    return row


def _as_json(shown: SourceItem | SourceTest | DocumentPreview | AdmissionReport) -> dict[str, Any]:
    data: dict[str, Any] = shown.model_dump(by_alias=True, mode="json")
    return data


def _row(source: Source, item: dict[str, Any]) -> tuple[str, ...]:
    origin = item["error"] or item["location"] or shown_command(source.command)
    since = item["since"] or ""
    words = shortened(" ".join(str(origin).split()), 80)
    return (item["name"], item["kind"], item["state"], str(item["tools"]), since[:16].replace("T", " ") or "-", words)


def _shown(detail: SourceDetail) -> list[str]:
    lines = [f"{detail.name}: {detail.state}", f"type: {detail.kind}"]
    if detail.location and detail.kind != "openapi":
        lines.append(f"location: {detail.location}")
    if (outside := detail.outside) is not None:
        lines += [f"command: {shown_command(outside.command)}"] if outside.command else []
        lines += [f"connection: {outside.connection}"] if outside.connection else []
        lines += [f"server: {outside.server} ({outside.era})"] if outside.server else []
        lines += _of_document(detail)
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


def _found(found: SourceTest) -> list[str]:
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


def _of_document(detail: SourceDetail) -> list[str]:
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
    return lines + _needed(document.needs)


def _needed(needs: Sequence[ConnectionNeed]) -> list[str]:
    words = [Need(need.scheme, need.form or "", tuple(need.names)).words for need in needs]
    return [f"needs a connection: {' or '.join(words)}"] if words else []


def _previewed(preview: governance.DocumentPreview) -> list[str]:
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


def _admission(report: AdmissionReport) -> list[str]:
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
