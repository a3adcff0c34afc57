"""Executions: what happened in them, and why; running them again, and stopping them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.http.bodies import TooLarge
from tools_app.packs.n8n import ExecutionId, explanation, node_data, pack, summary
from tools_app.packs.n8n.refusals import in_its_words
from tools_app.packs.n8n.runs import Execution, mapped
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import checked
from tools_app.sdk import heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, ConflictError, NotFoundError, UpstreamInvalidResponseError
from tools_app.sdk.examples import Example
from tools_app.sdk.signatures import Says
from tools_app.sdk.tool import Hints

# Of one execution with all its data, which n8n gives only as a whole.
_MOST_BYTES: Final = 64 * 1024 * 1024
_READS: Final = Hints(read_only=True)
_TAGS: Final = ("n8n", "execution")


async def fetched(ctx: Context, execution_id: str, *, in_outline: bool = False) -> Execution:
    """An execution with all its data: n8n has no way to ask for less.

    Where an outline will do, one that is too large comes without what is in its items, if n8n can leave that out.

    Raises:
        NotFoundError: n8n has no such execution.
    """
    with in_its_words("fetch execution"):
        try:
            told = await _told(ctx, execution_id)
            return await heavy.by_size(told, Execution, told)
        except UpstreamInvalidResponseError as error:
            if not isinstance(error.__cause__, TooLarge):
                raise
            if in_outline:
                # n8n 1 cannot leave anything out, and even what is left may be too much.
                with suppress(ApiError, UpstreamInvalidResponseError):
                    return Execution(await _told(ctx, execution_id, redactExecutionData="true"), reduced=True)
            error.next_step = (
                "n8n sends an execution whole or not at all. get_execution and explain_execution have an outline of it "
                "where it is n8n 2, and n8n's editor shows all of it."
            )
            raise


async def _told(ctx: Context, execution_id: str, **more: str) -> Mapping[str, Any]:
    told = await ctx.http.get(
        *("executions", execution_id),
        operation="fetch execution",
        resource="Execution",
        params={"includeData": "true", **more},
        most_bytes=_MOST_BYTES,
    )
    return checked(told, "fetch execution")


# ---- one execution


@pack.tool(
    title="Get execution",
    category="executions",
    tags=(*_TAGS, "summary"),
    keywords=(
        "one run, how it went, result of a run, how long it took, happened",
        "実行の詳細 処理の結果 何が起きた 所要時間",
    ),
    hints=_READS,
    done="実行サマリーを取得しました",
    examples=[Example("What happened in an execution", {"id": "1204"}, shown_only=True)],
    output_schema=summary.OUTPUT,
)
async def get_execution(ctx: Context, execution_id: ExecutionId) -> dict[str, Any]:
    """Get execution summary: status, duration, counts, and which nodes ran or failed.

    At most 1,000 tokens. Data of a node: get_execution_by_node. Why it failed: explain_execution.
    """
    execution = await fetched(ctx, execution_id, in_outline=True)
    return readable(await heavy.by_size(execution, summary.summary, execution))


@pack.tool(
    title="Get execution by node",
    category="executions",
    tags=(*_TAGS, "node"),
    keywords=(
        "what a step received and handed on, data of a step, items, rows, input, output",
        "ステップの入力 ステップの出力 渡したデータ 返した値 通ったデータ",
    ),
    hints=_READS,
    done="ノード実行詳細を取得しました",
    examples=[
        Example(
            "What a node was given and what it made of it", {"id": "1204", "nodeName": "HTTP Request"}, shown_only=True
        )
    ],
    output_schema=node_data.OUTPUT,
)
async def get_execution_by_node(
    ctx: Context,
    execution_id: ExecutionId,
    node_name: Annotated[
        str,
        Field(min_length=1, max_length=256, alias="nodeName"),
        "Name of the node, as in availableNodes of get_execution",
        Says("Node name is required, with at most 256 characters"),
    ],
    run_index: Annotated[
        int | None, Field(ge=0, alias="runIndex"), "Which of its runs; without it the last failed one, or the last"
    ] = None,
    item_offset: Annotated[int, Field(ge=0, alias="itemOffset"), "How many items to leave out"] = 0,
    item_limit: Annotated[int, Field(ge=1, le=1000, alias="itemLimit"), "How many items at most"] = 100,
    raw: Annotated[bool, "Whole: nothing is cut"] = False,
) -> dict[str, Any]:
    """Get detailed execution data for a single node: input, output, parameters and error.

    Items come in pages: nextItemOffset leads on. Where shownInPart is true, raw: true has it whole.
    """
    execution = await fetched(ctx, execution_id)
    node = node_data.found(execution, node_name)
    if node is None or not execution.runs[node]:
        raise _no_node(execution, node_name)
    runs = execution.runs[node]
    index = node_data.telling(execution, node) if run_index is None else run_index
    if index >= len(runs):
        raise NotFoundError(
            f"Run {index} of node '{words(node_name, 256)}' not found in execution '{execution_id}'",
            context={"operation": "fetch execution", "resourceType": "Run", "resourceId": str(index)},
            next_step=f"It ran {len(runs)} times: runIndex goes from 0 to {len(runs) - 1}.",
        )

    def shown() -> dict[str, Any]:
        told = node_data.node_data(execution, runs[index], item_offset, item_limit, raw=raw)
        return readable(told | {"_guidance": _node_guidance(execution, told, node_data.notes(execution, runs[index]))})

    return await heavy.by_size(execution, shown)


def _no_node(execution: Execution, name: str) -> NotFoundError:
    alike = difflib.get_close_matches(name, list(execution.runs)[:500], n=3, cutoff=0.5)
    known = [words(node, 100) for node in dict.fromkeys([*alike, *execution.runs])][:10]
    if name in execution.nodes:
        step = "The workflow has such a node, but it did not run, or n8n has kept nothing of it."
    else:
        step = f"Nodes that ran: {', '.join(known)}." if known else "n8n has kept no data of any node."
    return NotFoundError(
        f"Node '{words(name, 256)}' not found in execution '{execution.id}'",
        context={"operation": "fetch execution", "resourceType": "Node", "resourceId": name},
        next_step=f"{step} get_execution lists what there is.",
    )


def _node_guidance(execution: Execution, told: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
    if told.get("shownInPart"):
        notes = [*notes, "Something is shown in part: raw: true, with itemLimit: 1, has it whole."]
    said = " ".join(notes)
    name, index = told["nodeName"], told["runIndex"]
    call = f"id: {quoted(execution.id)}, nodeName: {quoted(name)}, runIndex: {index}"
    then = [side["nextItemOffset"] for side in (told["output"], told["input"]) if side["nextItemOffset"] is not None]
    if then:
        return {
            "message": f"{said} There are more items.".lstrip(),
            "example": f"get_execution_by_node({call}, itemOffset: {then[0]})",
        }
    if told["status"] == "error":
        return {
            "message": f"{said} This node failed: compare its parameters with its input.".lstrip(),
            "example": f"explain_execution(id: {quoted(execution.id)})",
        }
    sources = told["input"]["sources"]
    if sources and sources[0]["nodeName"] in execution.runs:
        return {
            "message": f"{said} That is all of this run. Its input came from the node in the example.".lstrip(),
            "example": f"get_execution_by_node(id: {quoted(execution.id)}, "
            f"nodeName: {quoted(sources[0]['nodeName'])}, runIndex: {sources[0]['run']})",
        }
    return {
        "message": f"{said} That is all of this run.".lstrip(),
        "example": f"get_execution(id: {quoted(execution.id)})",
    }


@pack.tool(
    title="Explain execution",
    category="executions",
    tags=(*_TAGS, "errors"),
    keywords=(
        "why a run failed, crash, cause, what went wrong, happened, debug, troubleshoot",
        "失敗の原因 エラーの理由 なぜ止まった 何が起きた 調査",
    ),
    hints=_READS,
    done="Execution explained",
    examples=[Example("Why an execution failed", {"id": "1204"}, shown_only=True)],
    output_schema=explanation.OUTPUT,
)
async def explain_execution(ctx: Context, execution_id: ExecutionId) -> dict[str, Any]:
    """Explain why an execution failed: failing node, error, input, nodes that gave no items, what to look at next.

    At most 1,000 tokens. Also for executions that wait, were canceled, or succeeded with less than expected.
    """
    execution = await fetched(ctx, execution_id, in_outline=True)
    return readable(await heavy.by_size(execution, explanation.explanation, execution))


# ---- running and stopping

_UNFINISHED: Final = frozenset({"new", "running", "waiting"})
_BRIEF: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "id": {"type": ["string", "null"]},
        "workflowId": {"type": ["string", "null"]},
        "status": {"type": ["string", "null"]},
        "retryOf": {"type": ["string", "null"]},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "_guidance": {"type": "object"},
    },
    "required": ["id", "status"],
}


def _look(data: dict[str, Any]) -> dict[str, str]:
    if not data["id"]:
        return {"message": "list_executions shows what became of it.", "example": "list_executions(limit: 5)"}
    tool = "get_execution" if data["status"] in ("success", "running", "waiting") else "explain_execution"
    return {"message": f"{tool} tells how it went.", "example": f"{tool}(id: {quoted(data['id'])})"}


def _brief(told: Any, warning: str) -> dict[str, Any]:
    told = mapped(told)
    brief: dict[str, Any] = {
        key: None if told.get(key) is None else str(told[key]) for key in ("id", "workflowId", "status")
    }
    if told.get("retryOf"):
        brief["retryOf"] = str(told["retryOf"])
    return brief | ({"warnings": [warning]} if warning else {})


@pack.tool(
    title="Retry execution",
    category="executions",
    tags=(*_TAGS, "run"),
    keywords=(
        "run once more, second attempt, do it over, try again, repeat",
        "もう一度実行 再試行 やり直し もう一回走らせる 再実行",
    ),
    # Its nodes may delete, and what has happened may happen twice.
    hints=Hints(destructive=True),
    timeout=120,
    done="Execution retried",
    guidance=_look,
    examples=[
        Example("Run it again, with the workflow as it is now", {"id": "1204", "loadWorkflow": True}, shown_only=True)
    ],
    output_schema=_BRIEF,
)
async def retry_execution(
    ctx: Context,
    execution_id: ExecutionId,
    load_workflow: Annotated[
        bool, Field(alias="loadWorkflow"), "Take the workflow as it is now, instead of as it was then"
    ] = False,
) -> dict[str, Any]:
    """Run a failed execution again, from the node that failed. Answers when the new one is over, or waits."""
    with in_its_words("retry execution"):
        told = await ctx.http.get("executions", execution_id, operation="retry execution", resource="Execution")
    # n8n would run it a second time, beside the first.
    if (status := mapped(told).get("status")) in _UNFINISHED:
        raise ConflictError(
            f"Execution '{execution_id}' cannot be retried: it has not ended yet, n8n calls it {status}",
            context={"field": "id"},
            next_step="get_execution shows when it has ended; stop_execution ends it, from n8n 2 on.",
        )
    with in_its_words("retry execution"):
        response = await ctx.http.post(
            *("executions", execution_id, "retry"),
            operation="retry execution",
            resource="Execution",
            json={"loadWorkflow": load_workflow},
            timeout=125,
        )
    return _brief(response.data, response.warning)


@pack.tool(
    title="Stop execution",
    category="executions",
    tags=(*_TAGS, "run"),
    keywords=(
        "cancel a run, kill, hangs, stuck, endless, still running",
        "実行を止める 中止 強制終了 終わらない処理 動いている処理を止める",
    ),
    hints=Hints(destructive=True, idempotent=True),
    done="Execution stopped",
    guidance=_look,
    examples=[Example("Stop one that runs or waits", {"id": "1204"}, shown_only=True)],
    output_schema=_BRIEF,
)
async def stop_execution(ctx: Context, execution_id: ExecutionId) -> dict[str, Any]:
    """Stop an execution that runs or waits. Needs n8n 2 or later."""
    with in_its_words("stop execution"):
        response = await ctx.http.post(
            *("executions", execution_id, "stop"), operation="stop execution", resource="Execution"
        )
    return _brief({"id": execution_id, **mapped(response.data)}, response.warning)
