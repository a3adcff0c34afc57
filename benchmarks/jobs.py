"""What whole jobs cost an agent: eleven that people give, done by a real MCP client on a real hub.

    python benchmarks/jobs.py

n8n and Redmine are the stateful ones of the tests, which answer as real ones were recorded to. The agent is a script:
it calls what the descriptions and answers lead to, as the skills of the packs say, and does not try in vain except
where a model could not know better (a field that is required, job 8). Tokens are bytes of calls and texts of answers,
by three.
`before` are the figures of the same jobs before there were tools for them, from a session with real n8n and Redmine.
After each job, the upstream itself is asked whether it was done.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

CHECKOUT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # Not this directory: a benchmark is called mcp, like the package.
    sys.path[0] = str(CHECKOUT)

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult

    from tests.packs.n8n.fake import N8n
    from tests.support.redmine import FakeRedmine

SCRIPT = """// Adds up the lines of an order, with the discount of its customer.
const customers = new Map($('Node 07').all().map((item) => [item.json.id, item.json]));
return $input.all().map((item) => {
  const customer = customers.get(item.json.customer) ?? { discount: 0 };
  const net = item.json.lines.reduce((sum, line) => sum + line.prize.amount * line.count, 0);
  return { json: { ...item.json, net, total: net * (1 - customer.discount) } };
});"""
ERROR = "Cannot read properties of undefined (reading 'amount') [line 5, for item 3]"
BEGAN = 1_795_000_000_000
FAILED = 23
BUGS = 30
ISSUES, OPEN = 500, 315


class Agent:
    """Calls tools of a hub, and counts what it sends and gets."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.calls = self.sent = self.received = 0

    async def __call__(self, name: str, /, **arguments: Any) -> Any:
        """The data of an answer, of which only the text counts."""
        result, text = await self._call(name, arguments)
        assert not result.is_error, text
        answer = json.loads(text) if text.startswith(("{", "[")) else result.structured_content
        return (
            answer["data"] if isinstance(answer, dict) and answer.keys() == {"success", "message", "data"} else answer
        )

    async def refused(self, name: str, /, **arguments: Any) -> str:
        """What a refusal says."""
        result, text = await self._call(name, arguments)
        assert result.is_error, text
        return text

    async def _call(self, name: str, arguments: dict[str, Any]) -> tuple[CallToolResult, str]:
        result = await self._client.call_tool(name, arguments)
        text = "".join(getattr(part, "text", "") for part in result.content)
        self.calls += 1
        self.sent += _bytes({"name": name, "arguments": arguments})
        self.received += len(text.encode())
        return result, text


@dataclass(frozen=True)
class Figures:
    calls: int
    sent: int
    received: int


@dataclass(frozen=True)
class Job:
    """What is asked for, what it took before (None: it could not be done), and how it is done now."""

    question: str
    before: Figures | None
    do: Callable[[Agent, N8n, FakeRedmine], Awaitable[None]]
    note: str = ""


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


# ---- what there is


def hook(path: str) -> dict[str, Any]:
    parameters = {"httpMethod": "POST", "path": path, "responseMode": "lastNode", "options": {}}
    there = {"id": "w", "name": "Webhook", "type": "n8n-nodes-base.webhook", "typeVersion": 2}
    return {**there, "position": [0, 0], "parameters": parameters, "webhookId": path}


def code(name: str, script: str) -> dict[str, Any]:
    there = {"id": f"c-{name}", "name": name, "type": "n8n-nodes-base.code", "typeVersion": 2}
    return {**there, "position": [240, 0], "parameters": {"jsCode": script}}


def chain(name: str, nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    links = {
        before["name"]: {"main": [[{"node": after["name"], "type": "main", "index": 0}]]}
        for before, after in itertools.pairwise(nodes)
    }
    return {"name": name, "nodes": list(nodes), "connections": links, "settings": {"executionOrder": "v1"}}


def sixty_nodes() -> dict[str, Any]:
    """Sixty nodes with parameters of the usual size, of which the 51st fails."""
    steps = [code(f"Node {number:02}", f"// step {number}\n" + "return $input.all();\n" * 8) for number in range(1, 60)]
    nodes = [hook("orders"), *steps]
    nodes[50] |= {"name": "Sum", "parameters": {"jsCode": SCRIPT}}
    return chain("Orders", nodes)


def executed(n8n: N8n, one: str, upto: int, kind: str, items: Sequence[Any]) -> dict[str, Any]:
    """An execution of a workflow as far as this node: what each gave, and how it ended (a recorded kind)."""
    from tests.packs.n8n.fake import recorded

    told = recorded(f"execution_{kind}", n8n.line)
    workflow = copy.deepcopy(n8n.workflows[one])
    number = str(max(map(int, n8n.executions), default=1000) + 1)
    runs: dict[str, Any] = {}
    for place, node in enumerate(workflow["nodes"][: upto + 1]):
        source = [{"previousNode": workflow["nodes"][place - 1]["name"]}] if place else []
        run = {"startTime": BEGAN + place, "executionIndex": place, "executionTime": 1, "source": source}
        runs[node["name"]] = [run | {"executionStatus": "success", "data": {"main": [list(items)]}}]
    told["data"]["resultData"] |= {"runData": runs, "lastNodeExecuted": workflow["nodes"][upto]["name"]}
    told |= {"id": number, "workflowId": one, "workflowData": workflow}
    n8n.executions[number] = told
    return told


def failed(n8n: N8n, one: str, at: int, said: str) -> dict[str, Any]:
    items = [{"json": {"customer": n, "lines": [{"price": {"amount": 2}, "count": 1}]}} for n in range(10)]
    told = executed(n8n, one, at, "error_code", items)
    result = told["data"]["resultData"]
    error = {"message": said, "name": "TypeError"}
    run = result["runData"][result["lastNodeExecuted"]][0]
    del run["data"]
    run |= {"executionStatus": "error", "error": error}
    result["error"] = error
    return told


def furnish(redmine: FakeRedmine) -> None:
    """500 issues of five people in five versions, and a month of their hours."""
    from tests.support.redmine_answers import PEOPLE, named

    people = [{"id": number, "name": name} for number, name in PEOPLE.items()]
    model = {key: value for key, value in redmine.issues[1].items() if key not in ("relations", "allowed_statuses")}
    versions = [redmine.versions[0] | {"id": 50 + n, "name": name, "status": "open"} for n, name in enumerate("AB")]
    redmine.versions += versions
    # One more is open until it is closed.
    already_open = sum(not one["status"].get("is_closed", False) for one in redmine.issues.values())
    for n in range(ISSUES):
        issue = copy.deepcopy(model) | {"id": 1000 + n, "subject": f"Something is wrong with part {n}"}
        issue |= {"assigned_to": people[n % len(people)], "tracker": {"id": 2, "name": "Feature"}}
        issue["fixed_version"] = named(redmine.versions[0])
        if n > OPEN - already_open:
            issue["status"] = {"id": 5, "name": "Closed", "is_closed": True}
        elif n < BUGS:
            issue |= {"tracker": {"id": 1, "name": "Bug"}, "fixed_version": named(versions[0])}
        redmine.issues[issue["id"]] = issue
    entry = redmine.entries[1]
    for n in range(90):
        day = {"id": 1000 + n, "user": people[n % len(people)], "spent_on": f"2026-11-{n % 30 + 1:02}", "hours": 2.0}
        redmine.entries[day["id"]] = entry | day


# ---- the jobs


async def fix_a_node(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    one = n8n.add(sixty_nodes())
    failed(n8n, one, 50, ERROR)
    before = copy.deepcopy(n8n.workflows[one]["nodes"])

    listed = (await agent("list_executions", status="error", limit=1))["executions"][0]
    explained = await agent("explain_execution", id=listed["id"])
    node = await agent(
        "get_workflow_node", workflowId=explained["workflowId"], nodeId=explained["failedNode"]["nodeName"]
    )
    version = node["_guidance"]["example"].partition("version: '")[2].partition("'")[0]
    fix = {"op": "replace_text", "node": "Sum", "old": "line.prize.", "new": "line.price."}
    await agent("edit_workflow", id=one, version=version, operations=[fix])
    again = await agent("retry_execution", id=listed["id"], loadWorkflow=True)

    assert again["status"] == "success"
    now = n8n.workflows[one]["nodes"]
    assert now[50]["parameters"]["jsCode"] == SCRIPT.replace("prize", "price")
    assert now[:50] + now[51:] == before[:50] + before[51:]


async def make_and_run(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    nodes = [hook("ping"), code("Answer", "return $input.all();")]
    made = await agent("create_workflow", **chain("Ping", nodes))
    await agent("activate_workflow", id=made["id"])
    ran = await agent("run_workflow", id=made["id"], data={"order": 7})
    await agent("get_execution", id=ran["id"])

    assert ran["status"] == "success"
    assert n8n.executions[ran["id"]]["workflowId"] == made["id"]


async def why_all_failed(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    """The list, then all explanations at once, of each only what answers the question."""
    flows = [n8n.add(chain(f"Flow {n}", [hook(f"flow{n}"), code("Check", "return [];")])) for n in range(4)]
    for n in range(FAILED):
        failed(n8n, flows[n % 4], 1, f"Order {n} has no customer")

    listed = (await agent("list_executions", status="error", limit=FAILED))["executions"]
    why = {"_fields": ["cause"]}
    causes: list[Any] = []
    for page in (listed[:20], listed[20:]):
        calls = [{"name": "explain_execution", "arguments": {"id": one["id"]} | why} for one in page]
        causes += (await agent("call_many", calls=calls))["results"]

    assert sorted({one["workflowName"] for one in listed}) == [f"Flow {n}" for n in range(4)]
    for n in range(FAILED):
        assert f"Order {n} has no customer" in json.dumps(causes[FAILED - 1 - n])


async def nothing_came(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    only_paid = code("Only paid", "") | {"type": "n8n-nodes-base.filter", "parameters": {}}
    mail = code("Mail", "") | {"type": "n8n-nodes-base.emailSend", "parameters": {}}
    one = n8n.add(chain("Newsletter", [hook("news"), code("Customers", "return [];"), only_paid, mail]))
    told = executed(n8n, one, 2, "chain", [{"json": {"paid": False}}] * 10)
    told["data"]["resultData"]["runData"]["Only paid"][0]["data"]["main"] = [[]]

    listed = await agent("list_executions", workflowName="Newsletter", limit=1)
    explained = await agent("explain_execution", id=listed["executions"][0]["id"])

    assert "Only paid" in json.dumps(explained["emptyNodes"])
    assert "Mail" in json.dumps(explained["notReached"])


async def log_and_close(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    spent = {"issue_id": 1100, "hours": 2, "activity_id": "Development", "comments": "Analysis"}
    await agent("create_time_entry", **spent)
    await agent("update_issue", id=1100, status_id="Closed", notes="Fixed in 1.0.")

    issue = redmine.issues[1100]
    assert (issue["status"]["name"], issue["journals"][-1]["notes"]) == ("Closed", "Fixed in 1.0.")
    assert redmine.entries[max(redmine.entries)]["hours"] == 2


async def move_bugs(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    bugs = {"project_id": "alpha", "tracker_id": "Bug", "fixed_version_id": "A", "status_id": "open"}
    listed = await agent("list_issues", **bugs, limit=100, _fields=["/issues/*/id", "/total_count"])
    ids = [one["id"] for one in listed["issues"]]
    await agent("update_issues", ids=ids, fixed_version_id="B")

    moved = [one for one in redmine.issues.values() if (one.get("fixed_version") or {}).get("name") == "B"]
    assert len(moved) == listed["total_count"] == BUGS


async def who_does_what(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    summed = await agent("summarize_issues", group_by=["assigned_to", "version"])

    assert summed["total_count"] == sum(group["issues"] for group in summed["groups"]) == OPEN


async def report_an_incident(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    """That fields are required, and which, is known from the refusal only."""
    redmine.required_fields = {"Severity", "Root cause"}
    asked = {"project_id": "alpha", "tracker_id": "Bug", "subject": "The shop is down"}
    refused = await agent.refused("create_issue", **asked)
    assert "Severity" in refused
    assert "Root cause" in refused
    values = [{"name": "Severity", "value": "High"}, {"name": "Root cause", "value": "Not known yet"}]
    await agent("create_issue", **asked, custom_fields=values)

    made = {one["name"]: one["value"] for one in redmine.issues[max(redmine.issues)]["custom_fields"]}
    assert (made["Severity"], made["Root cause"]) == ("High", "Not known yet")
    redmine.required_fields = set()


async def relate_and_attach(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    await agent("create_issue_relation", issue_id=2, related_issue_id=3, relation_type="blocks")
    await agent("attach_file", issue_id=2, filename="trace.txt", text="It stops at line 12.")
    await agent("set_member", project_id="alpha", user_id="8", roles=["Developer"])

    assert redmine.issues[2]["relations"][-1]["issue_to_id"] == 3
    assert redmine.issues[2]["attachments"][-1]["filename"] == "trace.txt"
    assert redmine.objects.memberships[-1]["user"]["id"] == 8


async def hours_of_november(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    month = {"from": "2026-11-01", "to": "2026-11-30"}
    summed = await agent("summarize_time_entries", group_by=["user"], **month)

    spent = [one["hours"] for one in redmine.entries.values() if "2026-11-01" <= one["spent_on"] <= "2026-11-30"]
    assert summed["total_hours"] == sum(spent)


async def from_failure_to_bug(agent: Agent, n8n: N8n, redmine: FakeRedmine) -> None:
    one = n8n.add(chain("Invoices", [hook("invoices"), code("Post", "return [];")]))
    failed(n8n, one, 1, "The ledger is locked")
    listed = (await agent("list_executions", status="error", limit=1))["executions"][0]
    explained = await agent("explain_execution", id=listed["id"])
    what = f"{listed['workflowName']}: {explained['failedNode']['nodeName']} fails"
    text = f"Execution {listed['id']}: {explained['error']['message']}"
    await agent("create_issue", project_id="alpha", tracker_id="Bug", subject=what, description=text)

    made = redmine.issues[max(redmine.issues)]
    assert (made["subject"], "The ledger is locked" in made["description"]) == ("Invoices: Post fails", True)


# Calls, and tokens sent and received before.
JOBS: Sequence[Job] = (
    Job("Why did last night fail? Fix the node (of 60), try again", Figures(67, 8_120, 13_909), fix_a_node),
    Job("Create a workflow, activate it, run it, look", Figures(5, 673, 978), make_and_run, "could not run it"),
    Job(f"What failed, and why? ({FAILED} executions)", Figures(24, 462, 9_233), why_all_failed),
    Job("It says success, but no mail came: why?", Figures(7, 178, 1_687), nothing_came),
    Job("Log two hours, close the issue with a note", Figures(4, 118, 884), log_and_close),
    Job(f"Move {BUGS} bugs to another version", Figures(32, 834, 30_986), move_bugs),
    Job(f"Who works on what? ({OPEN} open of {ISSUES})", Figures(7, 344, 16_904), who_does_what),
    Job("Report an incident with two required fields", None, report_an_incident),
    Job("Relate two issues, attach a file, add a member", None, relate_and_attach),
    Job("Hours of each person in November", Figures(1, 34, 2_297), hours_of_november, "added up by head"),
    Job("Make a bug of a failed execution", Figures(3, 113, 909), from_failure_to_bug),
)


async def replayed(url: str, key: str, n8n: N8n, redmine: FakeRedmine) -> list[Figures]:
    """What each job took."""
    figures = []
    async with connected(url, key) as client:
        for job in JOBS:
            agent = Agent(client)
            await job.do(agent, n8n, redmine)
            figures.append(Figures(agent.calls, -(-agent.sent // 3), -(-agent.received // 3)))
    return figures


@asynccontextmanager
async def connected(url: str, key: str) -> AsyncIterator[Client]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=120) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        yield client


def measured(home: Path) -> list[Figures]:
    """The same, on a hub of its own."""
    from tests.packs.n8n.fake import KEY, N8n
    from tests.support.processes import Home, key_in
    from tests.support.redmine import FakeRedmine

    with N8n() as n8n, FakeRedmine() as redmine:
        furnish(redmine)
        accounts = {"N8N_URL": n8n.url, "N8N_API_KEY": KEY}
        accounts |= {"REDMINE_HOST": redmine.url, "REDMINE_API_KEY": "key-of-admin"}
        hub = Home(home, accounts)
        # In a toolset that names it, `call_many` is listed.
        packs = ("--source", "n8n", "--source", "redmine", "--tool", "call_many")
        added = hub.run("synctools"), hub.run("toolset", "add", "office", *packs)
        made = hub.run("addkey", "agent", "--toolset", "office")
        assert not any(one.returncode for one in (*added, made)), (*added, made)
        with hub.serving() as server:
            return asyncio.run(replayed(server.url, key_in(made.stdout), n8n, redmine))


def lines(figures: Sequence[Figures]) -> Iterator[str]:
    """The table of docs/context.md."""
    yield "| job | before: calls | tokens | now: calls | tokens sent, received | |"
    yield "|---|---|---|---|---|---|"
    for job, now in zip(JOBS, figures, strict=True):
        was, whole = job.before, now.sent + now.received
        before = f"{was.calls} | {was.sent + was.received:,}" if was else "could not be done |"
        saved = (
            f"{whole / (was.sent + was.received) - 1:+.0%}".replace("-", "\N{MINUS SIGN}").replace("%", " %")
            if was
            else ""
        )
        note = "; ".join(filter(None, (saved, f"before: {job.note}" if job.note else "")))
        yield f"| {job.question} | {before} | {now.calls} | {now.sent:,} + {now.received:,} | {note} |"


def main() -> None:
    os.environ.setdefault("LOG_LEVEL", "error")
    with tempfile.TemporaryDirectory() as home:
        print("\n".join(lines(measured(Path(home)))))


if __name__ == "__main__":
    main()
