"""Lists of executions, newest first."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tools_app.packs.n8n import pack
from tools_app.packs.n8n.originals import as_shown
from tools_app.packs.n8n.runs import as_list, as_map, moment
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import as_object, fetched
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, NotFoundError, Problem, ToolError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import OrNumber

_SHOWN: Final = (
    *("id", "workflowId", "status", "mode", "startedAt", "stoppedAt"),
    *("finished", "retryOf", "retrySuccessId", "waitTill"),
)
_SHORT: Final = ("id", "workflowId", "workflowName", "status", "startedAt")
# Names of workflows, of each account: how long they are remembered, and how many are asked for in one call.
_NAMES: Final = "n8n: names of workflows"
_REMEMBERED: Final = 300.0
_MOST_NAMES: Final = 10
# The statuses of failed executions. n8n 1 lists crashed ones under `error`; n8n 2 needs a request for each status.
_FAILURES: Final = ("error", "crashed")
# The prefix of our cursors for lists of failures; any other cursor is n8n's own.
_OURS: Final = "failures."
_MOST_PAGES: Final = 50


def _shortened(full: dict[str, Any]) -> dict[str, Any]:
    short = [{key: each[key] for key in _SHORT if key in each} for each in full["executions"]]
    return full | {"executions": short}


def _listing_guidance(data: dict[str, Any]) -> dict[str, str]:
    executions = data["executions"]
    if not executions:
        return {
            "message": "No executions found. Running ones, and before n8n 2 waiting ones, are listed only when asked "
            "for by status. n8n deletes old executions, and saves some kinds only if the workflow's settings say so.",
            "example": "list_executions(status: 'running')",
        }
    first = next((each for each in executions if each.get("status") in ("error", "crashed")), executions[0])
    failed = first.get("status") in ("error", "crashed")
    tool = "explain_execution" if failed else "get_execution"
    advice = "explain_execution says why one failed" if failed else "get_execution has the summary of one"
    more = ", and nextCursor leads to the next page" if data.get("nextCursor") else ""
    return {"message": f"{advice}{more}.", "example": f"{tool}(id: {quoted(str(first['id']))})"}


@pack.tool(
    title="List executions",
    category="executions",
    tags=("n8n", "execution", "list"),
    keywords=(
        "past runs, processes, what ran, what failed, went wrong, activity, since yesterday",
        "実行一覧 実行履歴 処理の履歴 エラーになった処理 動き 失敗した実行",
    ),
    hints=Hints(read_only=True),
    minimal=_shortened,
    done="Executions retrieved",
    guidance=_listing_guidance,
    examples=[
        Example(
            "The last five that failed",
            {"status": "error", "limit": 5},
            {"count": "<integer>", "executions": "<array>"},
        )
    ],
    output_schema={
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "executions": {"type": "array", "items": {"type": "object"}},
            "nextCursor": {"type": ["string", "null"]},
            "warnings": {"type": "array", "items": {"type": "string"}},
            "_guidance": {"type": "object"},
        },
        "required": ["count", "executions", "nextCursor"],
    },
)
async def list_executions(
    ctx: Context,
    workflow_id: Annotated[
        str, Field(max_length=64, alias="workflowId"), OrNumber(), "Only executions of this workflow"
    ] = "",
    workflow_name: Annotated[
        str, Field(max_length=128, alias="workflowName"), "The same by name, or a part that only one workflow has"
    ] = "",
    status: Annotated[
        Literal["success", "error", "waiting", "running", "canceled"] | None,
        "error includes crashed; running ones only when requested",
    ] = None,
    since: Annotated[datetime | None, "Only those that started then or later"] = None,
    until: Annotated[datetime | None, "Only those that started before"] = None,
    limit: Annotated[int, Field(ge=1, le=100), "Page size"] = 20,
    cursor: Annotated[str, Field(max_length=2048), "nextCursor of the previous page"] = "",
) -> dict[str, Any]:
    """List executions of workflows, newest first."""
    if workflow_name:
        workflow_id = await _id_of(ctx, workflow_name, workflow_id)
    params = {"workflowId": workflow_id or None, "limit": limit}
    executions, next_cursor = await _between(ctx, params, status, cursor, since, until)
    if workflow_id and not executions and not cursor:
        await _check_workflow(ctx, workflow_id)
    names = await _names(ctx, executions)
    entries = [
        {key: each[key] for key in _SHOWN if key in each}
        | ({"workflowName": names[each["workflowId"]]} if each.get("workflowId") in names else {})
        for each in executions
    ]
    answer: dict[str, Any] = {"count": len(entries), "executions": entries, "nextCursor": next_cursor}
    if status == "waiting" and not executions and not await _lists_waiting(ctx):
        answer["warnings"] = ["This n8n is older than version 2 and never lists waiting executions."]
    return answer


async def _between(
    ctx: Context,
    params: Mapping[str, Any],
    status: str | None,
    cursor: str,
    since: datetime | None,
    until: datetime | None,
) -> tuple[list[Mapping[str, Any]], str | None]:
    """The first page with executions of that time: n8n's API has no filter for it."""
    earliest, latest = (each.replace(tzinfo=each.tzinfo or UTC) if each else None for each in (since, until))
    next_cursor: str | None = cursor
    executions: list[Mapping[str, Any]] = []
    for _ in range(_MOST_PAGES):
        if status == "error":
            executions, next_cursor = await _failures(ctx, params, next_cursor or "")
        else:
            page = await _page(ctx, {**params, "status": status}, next_cursor or None)
            executions, next_cursor = page.executions, page.next_cursor
        starts = [moment(each.get("startedAt")) for each in executions]
        if earliest and any(start is not None and start < earliest for start in starts):
            next_cursor = None
        executions = [
            each
            for each, start in zip(executions, starts, strict=True)
            if start is None or ((earliest is None or start >= earliest) and (latest is None or start < latest))
        ]
        if executions or not next_cursor:
            break
    return executions, next_cursor


async def _id_of(ctx: Context, name: str, workflow_id: str) -> str:
    """Raises: NotFoundError, InvalidArgumentsError: not exactly one workflow has that name."""
    page = as_object(
        await ctx.http.get(
            "workflows",
            operation="list workflows",
            params={"name": name, "limit": 100, "excludePinnedData": "true"},
        ),
        "list workflows",
    )
    found = [as_map(each) for each in as_list(page.get("data"))]
    same = [each for each in found if as_shown(str(each.get("name"))) == name] or found
    same = [each for each in same if workflow_id in ("", str(each.get("id")))]
    if len(same) == 1:
        return str(same[0].get("id"))
    if not same:
        raise NotFoundError(
            f"Workflow '{words(name, 128)}' not found",
            context={"operation": "list executions", "resourceType": "Workflow", "resourceId": name},
            next_step="list_workflows shows the names of all workflows.",
        )
    listed = ", ".join(f"{each.get('id')} ({words(as_shown(str(each.get('name'))), 100)!r})" for each in same[:10])
    problem = Problem("/workflowName", f"workflowName: {len(same)} workflows have {words(name, 128)!r} in their name")
    raise InvalidArgumentsError(problems=[problem], next_step=f"Send the workflowId of one of them: {listed}.")


async def _names(ctx: Context, executions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The names of their workflows by id. n8n lists executions without them; those that cannot be read are missing."""
    known: dict[str, tuple[float, str]] = ctx.http.memory.setdefault(_NAMES, {})
    now = time.monotonic()
    ids = list(dict.fromkeys(str(each["workflowId"]) for each in executions if each.get("workflowId")))
    unknown = [each for each in ids if known.get(each, (0.0, ""))[0] < now - _REMEMBERED]

    async def ask(workflow_id: str) -> None:
        try:
            workflow = await fetched(ctx, workflow_id, "list executions")
        except ToolError:
            return
        known[workflow_id] = now, words(readable(str(workflow.get("name"))), 200)

    await asyncio.gather(*map(ask, unknown[:_MOST_NAMES]))
    return {each: known[each][1] for each in ids if each in known}


async def _check_workflow(ctx: Context, workflow_id: str) -> None:
    """Tell an unknown workflow from one without executions: n8n lists nothing for both.

    Raises:
        NotFoundError: the workflow does not exist.
    """
    try:
        await fetched(ctx, workflow_id, "list executions")
    except NotFoundError as error:
        error.next_step = (
            f"workflowId must be a workflow id. list_workflows(name: {quoted(workflow_id)}) finds it by name."
        )
        raise
    except ToolError:
        # A key may be allowed to list executions but not to read workflows.
        ctx.log.info("Could not check whether workflow %s exists", workflow_id)


@dataclass(frozen=True, slots=True)
class _Page:
    executions: list[Mapping[str, Any]]
    cursor: str | None
    next_cursor: str | None


async def _page(ctx: Context, params: Mapping[str, Any], cursor: str | None) -> _Page:
    page = await ctx.http.get("executions", operation="list executions", params={**params, "cursor": cursor})
    page = as_object(page, "list executions")
    executions = [each for each in map(as_map, as_list(page.get("data"))[: params["limit"]]) if "id" in each]
    return _Page(executions, cursor, page.get("nextCursor"))


# ---- executions that failed


async def _failures(ctx: Context, params: Mapping[str, Any], cursor: str) -> tuple[list[Mapping[str, Any]], str | None]:
    """Merge one page of each of n8n's two lists by id; returns it with the next cursor.

    Our cursor contains n8n's cursors of the pages that have executions left, and the last id that was returned.
    """
    before_id, cursors = _position(cursor)
    pages: dict[str, _Page] = {}
    for status in _FAILURES:
        if status not in cursors:
            continue
        try:
            pages[status] = await _page_before(ctx, {**params, "status": status}, cursors[status], before_id)
        except ApiError as error:
            # n8n 1 does not know this status.
            if status == "error" or error.context.get("statusCode") != 400:
                raise
    # Executions older than the end of a page may come after those on its next page: they wait for that page.
    ends = [number_of(page.executions[-1]) for page in pages.values() if page.next_cursor and page.executions]
    merged = sorted((each for page in pages.values() for each in page.executions), key=number_of, reverse=True)
    listed_executions = [each for each in merged if number_of(each) >= max(ends, default=0)][: params["limit"]]
    last = number_of(listed_executions[-1]) if listed_executions else 0
    cursors_left = {
        status: page.cursor if any(number_of(each) < last for each in page.executions) else page.next_cursor
        for status, page in pages.items()
        if page.next_cursor or any(number_of(each) < last for each in page.executions)
    }
    return listed_executions, _cursor(last, cursors_left) if listed_executions and cursors_left else None


async def _page_before(ctx: Context, params: Mapping[str, Any], cursor: str | None, before: int | None) -> _Page:
    """The first page from the cursor on with executions older than `before`, and only these."""
    for _ in range(_MOST_PAGES):
        page = await _page(ctx, params, cursor)
        older = [each for each in page.executions if before is None or number_of(each) < before]
        if older or not page.next_cursor:
            break
        cursor = page.next_cursor
    return _Page(older, page.cursor, page.next_cursor)


def number_of(execution: Mapping[str, Any]) -> int:
    text = str(execution.get("id"))
    return int(text) if text.isascii() and text.isdecimal() else 0


def _cursor(before: int, cursors: Mapping[str, str | None]) -> str:
    text = json.dumps({"before": before, "cursors": cursors}, separators=(",", ":"))
    return _OURS + base64.urlsafe_b64encode(text.encode()).decode()


def _position(cursor: str) -> tuple[int | None, Mapping[str, str | None]]:
    """Raises: InvalidArgumentsError."""
    if not cursor.startswith(_OURS):
        return None, dict.fromkeys(_FAILURES, cursor or None)
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor.removeprefix(_OURS)))
        before, cursors = position["before"], position["cursors"]
    except (ValueError, KeyError, TypeError):
        before, cursors = None, None
    is_valid = isinstance(cursors, dict) and all(
        status in _FAILURES and isinstance(each, str | None) for status, each in cursors.items()
    )
    if not isinstance(before, int) or not is_valid:
        problem = Problem("/cursor", "cursor is not the nextCursor of a previous page")
        raise InvalidArgumentsError(problems=[problem], next_step="Omit cursor to start with the newest.")
    return before, cursors


async def _lists_waiting(ctx: Context) -> bool:
    """Whether this is n8n 2 or later: before, n8n refuses the status `crashed`."""
    try:
        await ctx.http.get("executions", operation="list executions", params={"status": "crashed", "limit": 1})
    except ApiError as error:
        if error.context.get("statusCode") == 400:
            return False
        raise
    return True
