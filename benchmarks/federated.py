"""What the tools of other servers cost an agent: listed or searched for, and called.

    python benchmarks/federated.py DIRECTORY

The agent of benchmarks/modes.py does twelve tasks on hubs with 10, 100 and 1,000 tools of real MCP servers (a directory
as for benchmarks/outsiders.py): the eight that it needs, and others, from each server in turn. Each server runs, as the
one of the tests: it lists these tools, and is called over HTTP. It answers as such services do, in texts of the usual
sizes. A task is finished when the server has got the call that it takes, and the agent its answer. Where the first
search does not show the tool, the agent searches again in its source, if that is among the likely ones.

`fields`: the agent says with `_fields` which parts of an answer it needs. It knows them; a model learns them from the
first answer. `searching` searches even if the list is so short that the mode `search` shows it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

CHECKOUT = Path(__file__).resolve().parent.parent
# The other benchmarks come last: one of them is called mcp, like the package.
sys.path[0] = str(CHECKOUT)
sys.path.append(str(CHECKOUT / "benchmarks"))

if TYPE_CHECKING:
    from tests.support.mcp_upstream import McpUpstream

REPOSITORY = {"owner": "acme", "repo": "shop"}
SHOP = {"namespace": "shop"}
TIMEOUTS = {"query": {"match": {"message": "timeout"}}}
COMMENT = {"issue_key": "OPS-12", "body": "It is fixed."}
# The question, the tool that answers it, and what it is given.
TASKS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("Which issues of the repository acme/shop are open?", "github/list_issues", {**REPOSITORY, "state": "open"}),
    ("Search the web for prices of heat pumps", "tavily/tavily_search", {"query": "heat pump prices"}),
    ("Which pods run in the namespace shop?", "kubernetes/kubectl_get", {**SHOP, "resourceType": "pods"}),
    ("Show the log of the pod web-1", "kubernetes/kubectl_logs", {**SHOP, "resourceType": "pod", "name": "web-1"}),
    ("Which events are in my calendar?", "ms365/list-calendar-events", {"top": 10}),
    ("Search the index logs for timeouts", "elastic/search", {"index": "logs", "queryBody": TIMEOUTS}),
    ("What were the last commits?", "git/git_log", {"repo_path": "/srv/shop", "max_count": 10}),
    ("Comment on the issue OPS-12 that it is fixed", "atlassian/jira_add_comment", COMMENT),
    ("Which issues of the repository acme/shop are closed?", "github/list_issues", {**REPOSITORY, "state": "closed"}),
    ("Which services run in the namespace shop?", "kubernetes/kubectl_get", {**SHOP, "resourceType": "services"}),
    ("Show the log of the pod web-2", "kubernetes/kubectl_logs", {**SHOP, "resourceType": "pod", "name": "web-2"}),
    ("Which meetings are in my calendar next week?", "ms365/list-calendar-events", {"top": 10, "skip": 10}),
)
FIELDS: Mapping[str, Sequence[str]] = {
    "github/list_issues": ["/*/number", "/*/title"],
    "tavily/tavily_search": ["/results/*/title", "/results/*/url"],
    "kubernetes/kubectl_get": ["/items/*/name", "/items/*/status"],
    "ms365/list-calendar-events": ["/value/*/subject", "/value/*/start/dateTime"],
    "elastic/search": ["/hits/hits/*/_source/message"],
}
SIZES = (10, 100, 1_000)
MODES = ("direct", "direct, fields", "search", "search, fields", "searching")


def answers() -> dict[str, Any]:
    """The answers of the servers, larger than the task needs."""
    person = {"login": "ann", "id": 7, "url": "https://api.example.com/users/ann", "type": "User", "site_admin": False}
    issues = [
        {
            "number": n,
            "title": f"Part {n} does not fit",
            "state": "open",
            "user": person,
            "labels": [{"id": n, "name": "bug", "color": "d73a4a", "url": f"https://api.example.com/labels/{n}"}],
            "url": f"https://api.example.com/repos/acme/shop/issues/{n}",
            "comments_url": f"https://api.example.com/repos/acme/shop/issues/{n}/comments",
            "created_at": "2026-01-30T10:00:00Z",
            "updated_at": "2026-01-31T10:00:00Z",
            "body": "The part that was sent does not fit into the one that was there before. " * 4,
        }
        for n in range(20)
    ]
    results = [
        {"title": f"Prices {n}", "url": f"https://example.com/{n}", "content": "Words of a page. " * 30, "score": 0.9}
        for n in range(10)
    ]
    pods = [{"name": f"web-{n}", "kind": "Pod", "status": "Running", "createdAt": "2026-01-30"} for n in range(12)]
    events = [
        {
            "id": f"AAMkAGI{n:040}",
            "subject": f"Meeting {n}",
            "bodyPreview": "We talk about what is next, and who does it. " * 3,
            "start": {"dateTime": f"2026-02-0{n % 9 + 1}T10:00:00.0000000", "timeZone": "UTC"},
            "end": {"dateTime": f"2026-02-0{n % 9 + 1}T11:00:00.0000000", "timeZone": "UTC"},
            "organizer": {"emailAddress": {"name": "Ann", "address": "ann@example.com"}},
            "webLink": f"https://outlook.example.com/calendar/{n:060}",
        }
        for n in range(10)
    ]
    rows = [{"message": f"timeout {n}", "host": "web-1", "trace": "x" * 200} for n in range(10)]
    hits = [{"_index": "logs", "_id": str(n), "_score": 1.2, "_source": row} for n, row in enumerate(rows)]
    log = [f"2026-01-31T00:{n % 60:02}:00Z info Request {n} served" for n in range(150)]
    commits = [f"Commit: {n:040x}\nAuthor: Ann\nDate: 2026-01-{n + 10}\nMessage: Fix part {n}\n" for n in range(10)]
    return {
        "github/list_issues": issues,
        "tavily/tavily_search": {"query": "heat pump prices", "results": results},
        "kubernetes/kubectl_get": {"items": pods},
        "kubernetes/kubectl_logs": "\n".join(log),
        "ms365/list-calendar-events": {"value": events},
        "elastic/search": {"took": 3, "hits": {"total": {"value": 10}, "hits": hits}},
        "git/git_log": "\n".join(commits),
        "atlassian/jira_add_comment": {"success": True, "comment": {"id": "10", "body": "It is fixed."}},
    }


def start(stack: ExitStack, directory: Path) -> dict[str, McpUpstream]:
    """A server for each file, on loopback."""
    from outsiders import listings

    from tests.support import mcp_upstream

    servers = {
        name: stack.enter_context(mcp_upstream.running(tools)) for name, tools in listings(directory).items() if tools
    }
    for tool, answer in answers().items():
        source, _, name = tool.partition("/")
        text = answer if isinstance(answer, str) else json.dumps(answer)
        listed = next(one for one in servers[source].tools if one["name"] == name)
        declared = {"structuredContent": {"result": text}} if "outputSchema" in listed else {}
        servers[source].behave(name, result=mcp_upstream.text(text, **declared))
    return servers


def federate(servers: Mapping[str, McpUpstream]) -> None:
    """They are sources of the hub, and their tools approved with the hints that they claim."""
    from tools_app.models import Source
    from tools_app.sources import outside, sync

    for name, server in servers.items():
        kind, trust = Source.Kind.MCP_HTTP, Source.Trust.AUTO
        row = Source(name=name, prefix=name, kind=kind, location=server.url, internal=True, enabled=True, trust=trust)
        row.save()
        provider = outside.provider(name)
        assert provider is not None
        sync.sync_source(provider, actor="benchmark")


def switch_on(number: int) -> dict[str, str]:
    """Switch on the tools of the tasks, then others from each source in turn. Returns the names of the former."""
    from tools_app.models import ToolRecord

    needed = {tool for _, tool, _ in TASKS}
    rows = ToolRecord.objects.filter(source__kind="mcp_http")
    by_source: dict[str, list[tuple[int, str, str]]] = {}
    for pk, source, name, original in rows.order_by("name").values_list("pk", "source__name", "name", "original_name"):
        by_source.setdefault(source, []).append((pk, name, f"{source}/{original}"))
    # The needed ones first, then the first of each source, the second, and so on.
    ranked = sorted(
        (tool not in needed, place, source, pk, name, tool)
        for source, tools in by_source.items()
        for place, (pk, name, tool) in enumerate(tools)
    )[:number]
    rows.update(enabled=False)
    rows.filter(pk__in=[pk for *_, pk, _, _ in ranked]).update(enabled=True)
    return {tool: name for *_, name, tool in ranked if tool in needed}


async def measured(size: int, names: Mapping[str, str], servers: Mapping[str, McpUpstream]) -> None:
    from modes import Agent

    from tools_app import engine
    from tools_app.text.budget import tokens_of

    engine.adopt_running_loop()
    tasks = [(question, names[tool], arguments) for question, tool, arguments in TASKS]
    fields = {names[tool]: paths for tool, paths in FIELDS.items()}
    sources = {name: tool.partition("/")[0] for tool, name in names.items()}
    listed: dict[bool, int] = {}
    for mode in MODES:
        agent = Agent(mode, fields=fields, sources=sources)
        columns = []
        for together in (False, True):
            executed = sum(len(server.calls) for server in servers.values())
            talks = [await agent.works(part) for part in ([tasks] if together else [[task] for task in tasks])]
            finished = sum(len(server.calls) for server in servers.values()) - executed
            tokens = tokens_of(sum(one.sent for one in talks))
            calls = sum(one.calls for one in talks)
            assert finished + sum(len(one.missed) for one in talks) == len(tasks)
            base = listed.setdefault(together, tokens // finished)
            change = f"{tokens / finished / base - 1:+.1%}"
            columns.append(f"{tokens // finished:>10,}{change:>8}{calls / finished:>6.1f}{finished:>4}")
        missed = sorted({question for one in talks for question in one.missed})
        print(f"{size:>6}{mode:>16}{tokens_of(talks[0].listed):>9,}", *columns, *missed, flush=True)
    await engine.close(2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    limits = {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0"}
    os.environ.update(DJANGO_SETTINGS_MODULE="toolhub.settings", LOG_LEVEL="error", **limits)
    with tempfile.TemporaryDirectory() as home, ExitStack() as stack:
        os.environ["TOOLHUB_HOME"] = home
        import django

        django.setup()
        from django.conf import settings
        from search import shipped

        from tools_app import sources
        from tools_app.base import hub
        from tools_app.catalog.catalog import CatalogState
        from tools_app.setup import installation
        from tools_app.sources import sync

        settings.TOOLHUB_PACKS = ()
        installation.require_ready(lambda line: None)
        code = sources.current().code
        for one in shipped():
            if one.pack and one.pack.name in ("builtin", "finding"):
                code.loaded().add(one)
        sync.sync_source(code, actor="benchmark")
        servers = start(stack, options.directory)
        federate(servers)
        print("a finished task: tokens (bytes / 3), beside direct, calls, how many; apart, and all in one conversation")
        for size in options.sizes:
            names = switch_on(size)
            hub.current().drop(CatalogState)
            asyncio.run(measured(size, names, servers))


if __name__ == "__main__":
    main()
