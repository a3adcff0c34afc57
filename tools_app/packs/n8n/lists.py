"""Lists of executions, the newest first."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tools_app.packs.n8n import pack
from tools_app.packs.n8n.runs import listed, mapped
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import checked, fetched
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, NotFoundError, Problem, ToolError
from tools_app.sdk.examples import Example
from tools_app.sdk.signatures import OrNumber
from tools_app.sdk.tool import Hints

_SHOWN: Final = (
    *("id", "workflowId", "status", "mode", "startedAt", "stoppedAt"),
    *("finished", "retryOf", "retrySuccessId", "waitTill"),
)
_SHORT: Final = ("id", "workflowId", "status", "startedAt")
# What n8n calls executions that failed. n8n 1 lists crashed ones as failed, and n8n 2 has to be asked for each.
_FAILURES: Final = ("error", "crashed")
# Where a list of failures goes on; any other cursor is n8n's own.
_OURS: Final = "failures."
_MOST_PAGES: Final = 50


def _shortened(full: dict[str, Any]) -> dict[str, Any]:
    short = [{key: each[key] for key in _SHORT if key in each} for each in full["executions"]]
    return full | {"executions": short}


def _listing_guidance(data: dict[str, Any]) -> dict[str, str]:
    found = data["executions"]
    if not found:
        return {
            "message": "Nothing found. Executions that run, and before n8n 2 those that wait, are in no list unless "
            "asked for by status; n8n also deletes old ones, and keeps some kinds only if its workflow says so.",
            "example": "list_executions(status: 'running')",
        }
    first = next((each for each in found if each.get("status") in ("error", "crashed")), found[0])
    failed = first.get("status") in ("error", "crashed")
    tool = "explain_execution" if failed else "get_execution"
    why = "explain_execution says why one failed" if failed else "get_execution has the summary of one"
    more = ", and nextCursor leads to the next page" if data.get("nextCursor") else ""
    return {"message": f"{why}{more}.", "example": f"{tool}(id: {quoted(str(first['id']))})"}


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
        str, Field(max_length=64, alias="workflowId"), OrNumber(), "Only those of the workflow with this id"
    ] = "",
    status: Annotated[
        Literal["success", "error", "waiting", "running", "canceled"] | None,
        "Only those with this status: error lists crashed ones too, running ones are listed only when asked for",
    ] = None,
    limit: Annotated[int, Field(ge=1, le=100), "How many at most"] = 20,
    cursor: Annotated[str, Field(max_length=2048), "The nextCursor of the page before"] = "",
) -> dict[str, Any]:
    """List executions of workflows, the newest first."""
    asked = {"workflowId": workflow_id or None, "limit": limit}
    if status == "error":
        found, next_cursor = await _failures(ctx, asked, cursor)
    else:
        page = await _page(ctx, asked | {"status": status}, cursor or None)
        found, next_cursor = page.executions[:limit], page.next_cursor
    if workflow_id and not found and not cursor:
        await _check_workflow(ctx, workflow_id)
    shown = [{key: each[key] for key in _SHOWN if key in each} for each in found]
    answer: dict[str, Any] = {"count": len(shown), "executions": shown, "nextCursor": next_cursor}
    if status == "waiting" and not found and not await _lists_waiting(ctx):
        answer["warnings"] = ["This n8n is older than version 2 and never lists waiting executions, even if there are."]
    return answer


async def _check_workflow(ctx: Context, workflow_id: str) -> None:
    """n8n lists nothing where there is no such workflow.

    Raises:
        NotFoundError: there is none.
    """
    try:
        await fetched(ctx, workflow_id, "list executions")
    except NotFoundError as error:
        error.next_step = (
            f"workflowId is the id of a workflow. list_workflows(name: {quoted(workflow_id)}) finds one by its name."
        )
        raise
    except ToolError:
        # A key may list executions and read no workflows.
        ctx.log.info("Not known whether there is a workflow %s", workflow_id)


@dataclass(frozen=True, slots=True)
class _Page:
    executions: list[Mapping[str, Any]]
    cursor: str | None
    next_cursor: str | None


async def _page(ctx: Context, asked: Mapping[str, Any], cursor: str | None) -> _Page:
    told = await ctx.http.get("executions", operation="list executions", params={**asked, "cursor": cursor})
    told = checked(told, "list executions")
    executions = [each for each in map(mapped, listed(told.get("data"))[: asked["limit"]]) if "id" in each]
    return _Page(executions, cursor, told.get("nextCursor"))


# ---- executions that failed


async def _failures(ctx: Context, asked: Mapping[str, Any], cursor: str) -> tuple[list[Mapping[str, Any]], str | None]:
    """One page of two lists of n8n, merged by id, and the cursor of the next.

    A cursor of ours has the cursors of those pages of n8n's that have something left, and the last id that was shown.
    """
    before, cursors = _position(cursor)
    pages: dict[str, _Page] = {}
    for status in _FAILURES:
        if status not in cursors:
            continue
        try:
            pages[status] = await _page_before(ctx, {**asked, "status": status}, cursors[status], before)
        except ApiError as error:
            # n8n 1 does not know the word.
            if status == "error" or error.context.get("statusCode") != 400:
                raise
    # What is older than the end of a page that is not the last may come after what the next page has.
    ends = [_number(page.executions[-1]) for page in pages.values() if page.next_cursor and page.executions]
    merged = sorted((each for page in pages.values() for each in page.executions), key=_number, reverse=True)
    shown = [each for each in merged if _number(each) >= max(ends, default=0)][: asked["limit"]]
    last = _number(shown[-1]) if shown else 0
    left = {
        status: page.cursor if any(_number(each) < last for each in page.executions) else page.next_cursor
        for status, page in pages.items()
        if page.next_cursor or any(_number(each) < last for each in page.executions)
    }
    return shown, _cursor(last, left) if shown and left else None


async def _page_before(ctx: Context, asked: Mapping[str, Any], cursor: str | None, before: int | None) -> _Page:
    """The first page from the cursor on that has an execution older than `before`, with these only."""
    for _ in range(_MOST_PAGES):
        page = await _page(ctx, asked, cursor)
        older = [each for each in page.executions if before is None or _number(each) < before]
        if older or not page.next_cursor:
            break
        cursor = page.next_cursor
    return _Page(older, page.cursor, page.next_cursor)


def _number(execution: Mapping[str, Any]) -> int:
    told = str(execution.get("id"))
    return int(told) if told.isascii() and told.isdecimal() else 0


def _cursor(before: int, cursors: Mapping[str, str | None]) -> str:
    text = json.dumps({"before": before, "cursors": cursors}, separators=(",", ":"))
    return _OURS + base64.urlsafe_b64encode(text.encode()).decode()


def _position(cursor: str) -> tuple[int | None, Mapping[str, str | None]]:
    """Raises: InvalidArgumentsError."""
    if not cursor.startswith(_OURS):
        return None, dict.fromkeys(_FAILURES, cursor or None)
    try:
        told = json.loads(base64.urlsafe_b64decode(cursor.removeprefix(_OURS)))
        before, cursors = told["before"], told["cursors"]
    except (ValueError, KeyError, TypeError):
        before, cursors = None, None
    known = isinstance(cursors, dict) and all(
        status in _FAILURES and isinstance(each, str | None) for status, each in cursors.items()
    )
    if not isinstance(before, int) or not known:
        problem = Problem("/cursor", "cursor is not the nextCursor of a page before")
        raise InvalidArgumentsError(problems=[problem], next_step="Leave it out to begin with the newest.")
    return before, cursors


async def _lists_waiting(ctx: Context) -> bool:
    """Whether this is n8n 2 or later, which can be asked for crashed executions as well; before, that is refused."""
    try:
        await ctx.http.get("executions", operation="list executions", params={"status": "crashed", "limit": 1})
    except ApiError as error:
        if error.context.get("statusCode") == 400:
            return False
        raise
    return True
