"""Add, list, test, admit, review, approve, reconnect and remove sources of tools."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from django.core.management.base import CommandParser

from tools_app import engine, governance
from tools_app.api import source_items
from tools_app.api.source_items import (
    AdmissionReport,
    DocumentPreview,
    SourceDetail,
    SourceItem,
    SourceTest,
)
from tools_app.governance import Actor
from tools_app.governance.source_checks import CAPABILITIES
from tools_app.management import source_lines
from tools_app.management.hub_command import REFUSED, Abort, HubCommand, in_words
from tools_app.management.source_lines import MOST_NAMES
from tools_app.management.source_review import Review
from tools_app.management.tables import aligned
from tools_app.models import Source, ToolRecord, Toolset
from tools_app.sdk.errors import ToolError, shortened
from tools_app.sdk.names import folded
from tools_app.text import hygiene

MOST_DOCUMENT: Final = 32 * 1024 * 1024
COLUMNS: Final = ("NAME", "TYPE", "STATE", "TOOLS", "SINCE", "ORIGIN OR ERROR")
# Lines for people, and data.
_Answer = tuple[Sequence[str], Any]
_T = TypeVar("_T")


class Command(HubCommand):
    help = (
        "Manage sources of tools, such as MCP servers and OpenAPI documents: preview, add, list, test, admit, on, off, "
        "review, approve, select, document, reconnect, remove. "
        "A new source is off, and none of its tools runs before you approve it."
    )
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

        def verb(name: str, words: str, *, named: bool = True, many: bool = False, reason: bool = True) -> Any:
            own = verbs.add_parser(name, help=words, description=words)
            if many:
                own.add_argument("names", nargs="+", metavar="NAME", help="the sources")
            elif named:
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
        verb("test", "Connect to sources, and show their tools. Records none of them.", many=True, reason=False)
        admission = verb("admit", "Run a source once in isolation, and store a report: the admission test.")
        admission.add_argument(
            "--call-read-only",
            action="store_true",
            help="also call up to three tools that say they only read, with wrong arguments",
        )
        verb("on", "Switch sources on, and record their tools; they wait for approval.", many=True)
        verb("off", "Switch sources off: all calls of their tools are refused.", many=True)
        review = verb("review", "Show what waits for approval in all sources, in short, or approve it.", named=False)
        review.add_argument("names", nargs="*", metavar="NAME", help="only these sources")
        review.add_argument(
            "--tool",
            action="append",
            default=[],
            dest="patterns",
            metavar="PATTERN",
            help="only tools of this name, or pattern such as 'github_get_*'; repeatable",
        )
        review.add_argument(
            "--approve", default="", metavar="CODE", help="approve what was shown, and nothing else; the output has it"
        )
        _add_approval(review, "also switch the approved tools on")
        approval = verb("approve", "Approve waiting versions of tools, as listed by `toolhub source list NAME`.")
        approval.add_argument("tools", nargs="*", metavar="TOOL", help="only these; default: all that wait")
        _add_approval(
            approval, "also switch the approved tools on; with TOOL arguments, also those that were approved before"
        )
        selection = verb("select", "Select the operations of an OpenAPI document that are imported as tools.")
        selection.add_argument("patterns", nargs="*", metavar="OPERATION", help=_PATTERN)
        selection.add_argument("--all", action="store_true", dest="selects_all", help="all, also later ones")
        document = verb("document", "Replace the OpenAPI document of a source. Changed tools wait for approval.")
        document.add_argument("document", metavar="FILE|URL", help="the document; JSON or YAML")
        verb("reconnect", "End the connections and processes of sources, and list them again at once.", many=True)
        verb("remove", "Remove a source: its tools are retired, its secrets deleted. Its name is never used again.")

    def handle(self, *args: Any, verb: str, as_json: bool, **options: Any) -> None:
        self._has_failures = False
        try:
            words, data = getattr(self, f"_{verb}")(options)
        finally:
            asyncio.run(engine.close(2))
        if as_json and (data or not self._has_failures):
            self.stdout.write(json.dumps(data, indent=2, ensure_ascii=False))
        for line in words if not as_json else ():
            # Others wrote parts of it: nothing may control the terminal.
            self.stdout.write(hygiene.cleaned(line))
        if self._has_failures:
            sys.exit(1)

    def _each(self, names: Sequence[str], act: Callable[[str], _T]) -> list[_T]:
        """Act on each source. What fails for one of them is reported, and the others are done."""
        results = []
        for name in dict.fromkeys(names):
            try:
                results.append(act(name))
            except (ToolError, Abort) as error:
                self._has_failures = True
                words = in_words(error) if isinstance(error, ToolError) else str(error)
                self.tell(hygiene.cleaned(f"toolhub: {name}: {words}"))
        return results

    def _add(self, options: dict[str, Any]) -> _Answer:
        name, url, command = options["name"], options["url"], list(options["command"])
        steps = f"Next: toolhub source test {name}, toolhub source on {name}, toolhub source review {name}."
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
        return [f"{name} is added, and off.", *source_lines.of_document(detail), steps], _as_json(detail)

    def _preview(self, options: dict[str, Any]) -> _Answer:
        preview = governance.preview_document(
            **_document(options["document"]),
            name=options["name"],
            internal=options["internal"],
            select=options["select"] or None,
            actor=governance.of_command(),
        )
        return source_lines.of_preview(preview), _as_json(DocumentPreview.shown(preview))

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
        return [f"{name} has a new document.", *source_lines.of_document(detail), *listed], _as_json(detail)

    def _listed(self, name: str) -> list[str]:
        """List a source now, if it is on. A hub that runs would do it within seconds."""
        if not _source(name).enabled:
            return []
        return [f"{governance.describe_source(name, actor=governance.of_command())}"]

    def _list(self, options: dict[str, Any]) -> _Answer:
        if options["name"]:
            detail = _detail(options["name"])
            return source_lines.of_source(detail), _as_json(detail)
        rows = list(source_items.rows())
        data = [_as_json(SourceItem.shown(row)) for row in rows]
        return aligned([COLUMNS, *(source_lines.row(row, item) for row, item in zip(rows, data, strict=True))]), data

    def _test(self, options: dict[str, Any]) -> _Answer:
        return _joined(options, self._each(options["names"], _tested))

    def _admit(self, options: dict[str, Any]) -> _Answer:
        row = governance.admit_source(
            options["name"],
            call_read_only=options["call_read_only"],
            actor=governance.of_command(),
            reason=options["reason"],
        )
        report = AdmissionReport.shown(row)
        return source_lines.of_admission(report), _as_json(report)

    def _on(self, options: dict[str, Any]) -> _Answer:
        actor = governance.of_command()

        def on(name: str) -> str:
            governance.change_source(name, enabled=True, actor=actor, reason=options["reason"])
            return name

        def listed(name: str) -> _Answer:
            words = [f"{name} is on.", f"{governance.describe_source(name, actor=actor)}"]
            detail = _detail(name)
            if detail.waiting:
                words.append(f"Versions that wait for approval: {detail.waiting}. See toolhub source list {name}.")
            return words, _as_json(detail)

        # All are on before the first is listed: a hub that runs lists several at the same time.
        return _joined(options, self._each(self._each(options["names"], on), listed))

    def _off(self, options: dict[str, Any]) -> _Answer:
        def off(name: str) -> _Answer:
            governance.change_source(name, enabled=False, actor=governance.of_command(), reason=options["reason"])
            return [f"{name} is off."], _as_json(_detail(name))

        return _joined(options, self._each(options["names"], off))

    def _review(self, options: dict[str, Any]) -> _Answer:
        outside = Source.objects.filter(kind__in=Source.OUTSIDE, removed_at=None).order_by("name")
        chosen = [_source(name) for name in dict.fromkeys(options["names"])] or list(outside)
        review = Review.of(chosen, options["patterns"])
        if not options["approve"]:
            if options["enable"] or options["accept_hints"]:
                raise Abort("--enable and --accept-hints need --approve CODE: review first", REFUSED)
            return review.lines, {"code": review.code, "versions": [one.data for one in review.versions]}
        if options["approve"] != review.code:
            raise Abort(
                "what waits now is not what was shown with this code, or other sources or tools are named: "
                "nothing is approved. Review again"
            )
        approved = review.approve(
            enable=options["enable"],
            accept_hints=options["accept_hints"],
            actor=governance.of_command(),
            reason=options["reason"],
        )
        words = [f"Approved: {len(tools):,} of {name}: {_some(tools)}." for name, tools in approved.items()]
        words += _left_to_files([tool for tools in approved.values() for tool in tools], options)
        return [*words, *_next_steps(list(approved))], {"approved": approved}

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
        words += _left_to_files([*approved, *tools], options)
        if left and not tools:
            # Their wording could mislead an agent.
            words.append(
                f"Not approved because of findings: {', '.join(left)}. Read them, then approve these tools by name."
            )
        words = words or ["Nothing waits for approval."]
        return [*words, *_next_steps([name])], {"approved": approved, "waiting": left}

    def _reconnect(self, options: dict[str, Any]) -> _Answer:
        def reconnected(name: str) -> _Answer:
            governance.reconnect_source(name, actor=governance.of_command(), reason=options["reason"])
            return [f"A running hub reconnects to {name} and lists its tools again at once."], {"reconnected": name}

        return _joined(options, self._each(options["names"], reconnected))

    def _remove(self, options: dict[str, Any]) -> _Answer:
        name = options["name"]
        tools = governance.remove_source(name, actor=governance.of_command(), reason=options["reason"])
        retired = f" Its tools are retired: {', '.join(tools)}." if tools else ""
        return [f"{name} is removed.{retired}"], {"removed": name, "tools": tools}


def _enable(name: str, tools: Sequence[str], actor: Actor, reason: str) -> list[str]:
    """Those of these tools that were approved before. Prompts and resources have no switch."""
    rows = ToolRecord.objects.present().filter(source__name=name, folded_name__in=[folded(tool) for tool in tools])
    names = set(rows.values_list("name", flat=True))
    return governance.set_enabled(sorted(names - {*governance.managed_tools(names)}), True, actor=actor, reason=reason)


def _left_to_files(tools: Sequence[str], options: dict[str, Any]) -> list[str]:
    """What --enable and --accept-hints have left alone."""
    managed = governance.managed_tools(tools) if options["enable"] or options["accept_hints"] else []
    return [f"Switch and hints are those of a configuration file: {_some(managed)}."] if managed else []


def _next_steps(names: Sequence[str]) -> list[str]:
    """What agents still lack to call the approved tools of these sources."""
    words = []
    for name in names:
        rows = ToolRecord.objects.present().filter(source__name=name, definition__approved_at__isnull=False)
        if off := sorted(rows.filter(enabled=False).values_list("name", flat=True)):
            words.append(f"Off: {_some(off)}. To switch tools on: toolhub source approve {name} TOOL… --enable.")
    selected = {name for toolset in Toolset.objects.all() for name in toolset.packs}
    if lacking := [name for name in names if name not in selected]:
        options = " ".join(f"--source {name}" for name in lacking)
        words.append(
            f"Agents reach tools of sources only by a toolset, and none selects {', '.join(lacking)}: "
            f"toolhub toolset add TOOLSET {options}. Then give it to agents: toolhub addkey KEY --toolset TOOLSET, or "
            "toolhub runmcp --toolset TOOLSET."
        )
    return words


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")


def _joined(options: dict[str, Any], answers: Sequence[_Answer]) -> _Answer:
    data = [item for _, item in answers]
    return [line for words, _ in answers for line in words], data[0] if len(options["names"]) == 1 and data else data


def _tested(name: str) -> _Answer:
    found = SourceTest.of(governance.test_source(name, actor=governance.of_command()))
    return [f"{name}:", *source_lines.of_test(found)], {"source": name, **_as_json(found)}


_PATTERN: Final = "its method and path, a pattern for its path or name, such as 'GET /pets*', or tag:NAME"


def _add_approval(parser: Any, help: str) -> None:
    parser.add_argument("--enable", action="store_true", help=help)
    parser.add_argument(
        "--accept-hints", action="store_true", help="accept what they claim: read-only, not destructive, idempotent"
    )


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
