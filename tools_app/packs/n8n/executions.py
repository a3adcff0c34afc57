"""Executions: reading and explaining them, retrying and stopping them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.http.bodies import TooLarge
from tools_app.packs.n8n import ExecutionId, explanation, node_data, pack, summary
from tools_app.packs.n8n.refusals import in_its_words
from tools_app.packs.n8n.runs import Execution, Run, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import as_object
from tools_app.sdk import heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, ConflictError, NotFoundError, UpstreamInvalidResponseError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import Says

# Size limit of one execution: n8n sends it only as a whole.
_MOST_BYTES: Final = 64 * 1024 * 1024
_READS: Final = Hints(read_only=True)
_TAGS: Final = ("n8n", "execution")


async def fetched(ctx: Context, execution_id: str, *, in_outline: bool = False) -> Execution:
    """An execution with all its data: n8n cannot send less.

    With `in_outline`, an execution that is too large is fetched again without the content of items, if n8n can do that.

    Raises:
        NotFoundError: n8n has no such execution.
    """
    with in_its_words("fetch execution"):
        try:
            data = await _data(ctx, execution_id)
            return await heavy.by_size(data, Execution, data)
        except UpstreamInvalidResponseError as error:
            if not isinstance(error.__cause__, TooLarge):
                raise
            if in_outline:
                # n8n 1 cannot omit anything, and even the outline may be too large.
                with suppress(ApiError, UpstreamInvalidResponseError):
                    return Execution(await _data(ctx, execution_id, redactExecutionData="true"), reduced=True)
            error.next_step = (
                "n8n sends executions only as a whole. With n8n 2, get_execution and explain_execution have an outline "
                "of it; n8n's editor shows all of it."
            )
            raise


async def _data(ctx: Context, execution_id: str, **more: str) -> Mapping[str, Any]:
    data = await ctx.http.get(
        *("executions", execution_id),
        operation="fetch execution",
        resource="Execution",
        params={"includeData": "true", **more},
        most_bytes=_MOST_BYTES,
    )
    return as_object(data, "fetch execution")


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
    """Get a summary of an execution: status, duration, counts, nodes that ran or failed.

    For a node's data: get_execution_by_node; why it failed: explain_execution.
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
    examples=[Example("Input and output of a node", {"id": "1204", "nodeName": "HTTP Request"}, shown_only=True)],
    output_schema=node_data.OUTPUT,
)
async def get_execution_by_node(
    ctx: Context,
    execution_id: ExecutionId,
    node_name: Annotated[
        str,
        Field(min_length=1, max_length=256, alias="nodeName"),
        "From availableNodes of get_execution",
        Says("Node name is required, with at most 256 characters"),
    ],
    run_index: Annotated[
        int | None, Field(ge=0, alias="runIndex"), "Run number; default: the last failed, else the last"
    ] = None,
    item_offset: Annotated[int, Field(ge=0, alias="itemOffset"), "Items to skip"] = 0,
    item_limit: Annotated[int, Field(ge=1, le=1000, alias="itemLimit"), "Items per page"] = 100,
    raw: Annotated[bool, "Without truncation"] = False,
) -> dict[str, Any]:
    """Get the data of one node of an execution: input, output, parameters, error.

    Paged: see nextItemOffset. If shownInPart is true, raw returns all.
    """
    execution = await fetched(ctx, execution_id)
    run = chosen_run(execution, node_name, run_index)

    def answer() -> dict[str, Any]:
        data = node_data.node_data(execution, run, item_offset, item_limit, raw=raw)
        return readable(data | {"_guidance": _node_guidance(execution, data, node_data.notes(execution, run))})

    return await heavy.by_size(execution, answer)


def chosen_run(execution: Execution, node_name: str, run_index: int | None) -> Run:
    """The run of a node with this number; by default the last failed one, else the last.

    Raises:
        NotFoundError: there is none.
    """
    node = node_data.find_node(execution, node_name)
    if node is None or not execution.runs[node]:
        raise _no_node(execution, node_name)
    runs = execution.runs[node]
    index = node_data.default_run(execution, node) if run_index is None else run_index
    if index >= len(runs):
        raise NotFoundError(
            f"Run {index} of node '{words(node_name, 256)}' not found in execution '{execution.id}'",
            context={"operation": "fetch execution", "resourceType": "Run", "resourceId": str(index)},
            next_step=f"It ran {len(runs)} times: runIndex goes from 0 to {len(runs) - 1}.",
        )
    return runs[index]


def _no_node(execution: Execution, name: str) -> NotFoundError:
    similar = difflib.get_close_matches(name, list(execution.runs)[:500], n=3, cutoff=0.5)
    names = [words(node, 100) for node in dict.fromkeys([*similar, *execution.runs])][:10]
    if name in execution.nodes:
        step = "The workflow has this node, but it did not run, or n8n kept no data of it."
    else:
        step = f"Nodes that ran: {', '.join(names)}." if names else "n8n kept no data of any node."
    return NotFoundError(
        f"Node '{words(name, 256)}' not found in execution '{execution.id}'",
        context={"operation": "fetch execution", "resourceType": "Node", "resourceId": name},
        next_step=f"{step} get_execution lists the nodes with data.",
    )


def _node_guidance(execution: Execution, data: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
    if data.get("shownInPart"):
        notes = [*notes, "Some values are truncated: raw: true with itemLimit: 1 returns them whole."]
    note = " ".join(notes)
    name, index = data["nodeName"], data["runIndex"]
    call = f"id: {quoted(execution.id)}, nodeName: {quoted(name)}, runIndex: {index}"
    next_offsets = [
        side["nextItemOffset"] for side in (data["output"], data["input"]) if side["nextItemOffset"] is not None
    ]
    if next_offsets:
        return {
            "message": f"{note} There are more items.".lstrip(),
            "example": f"get_execution_by_node({call}, itemOffset: {next_offsets[0]})",
        }
    if data["status"] == "error":
        return {
            "message": f"{note} This node failed: compare its parameters with its input.".lstrip(),
            "example": f"explain_execution(id: {quoted(execution.id)})",
        }
    sources = data["input"]["sources"]
    if sources and sources[0]["nodeName"] in execution.runs:
        return {
            "message": f"{note} This run has no more items. Its input came from the node in the example.".lstrip(),
            "example": f"get_execution_by_node(id: {quoted(execution.id)}, "
            f"nodeName: {quoted(sources[0]['nodeName'])}, runIndex: {sources[0]['run']})",
        }
    return {
        "message": f"{note} This run has no more items.".lstrip(),
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
    """Explain why an execution failed: node, error, input, nodes without items, what to look at.

    Also for waiting and canceled ones, and successes without results.
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
        return {"message": "list_executions shows its outcome.", "example": "list_executions(limit: 5)"}
    tool = "get_execution" if data["status"] in ("success", "running", "waiting") else "explain_execution"
    return {"message": f"{tool} shows the result.", "example": f"{tool}(id: {quoted(data['id'])})"}


def _brief(execution: Any, warning: str) -> dict[str, Any]:
    execution = as_map(execution)
    brief: dict[str, Any] = {
        key: None if execution.get(key) is None else str(execution[key]) for key in ("id", "workflowId", "status")
    }
    if execution.get("retryOf"):
        brief["retryOf"] = str(execution["retryOf"])
    return brief | ({"warnings": [warning]} if warning else {})


@pack.tool(
    title="Retry execution",
    category="executions",
    tags=(*_TAGS, "run"),
    keywords=(
        "run once more, second attempt, do it over, try again, repeat",
        "もう一度実行 再試行 やり直し もう一回走らせる 再実行",
    ),
    # Its nodes may delete data, and side effects may happen twice.
    hints=Hints(destructive=True),
    timeout=120,
    done="Execution retried",
    guidance=_look,
    examples=[
        Example("Retry with the current workflow", {"id": "1204", "loadWorkflow": True}, shown_only=True),
    ],
    output_schema=_BRIEF,
)
async def retry_execution(
    ctx: Context,
    execution_id: ExecutionId,
    load_workflow: Annotated[bool, Field(alias="loadWorkflow"), "Use the current workflow, not the original"] = False,
) -> dict[str, Any]:
    """Run a failed execution again, from the failed node. Returns when it ends or waits."""
    with in_its_words("retry execution"):
        execution = await ctx.http.get("executions", execution_id, operation="retry execution", resource="Execution")
    # n8n would run it a second time, in parallel.
    if (status := as_map(execution).get("status")) in _UNFINISHED:
        raise ConflictError(
            f"Execution '{execution_id}' cannot be retried: it has not ended yet (status: {status})",
            context={"field": "id"},
            next_step="Wait until get_execution shows that it has ended, or use stop_execution (n8n 2 or later).",
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
    title="Delete execution",
    category="executions",
    tags=(*_TAGS, "delete"),
    keywords=("remove a past run, clean up history, purge data of a run", "実行履歴を削除 実行データを消す"),
    hints=Hints(destructive=True, idempotent=True),
    done="Execution deleted",
    guidance=lambda _: {
        "message": "It cannot be restored. list_executions shows the others.",
        "example": "list_executions(limit: 20)",
    },
    examples=[Example("Delete a past execution", {"id": "1204"}, shown_only=True)],
    output_schema={
        "type": "object",
        "properties": {"id": {"type": "string"}, "_guidance": {"type": "object"}},
        "required": ["id"],
    },
)
async def delete_execution(ctx: Context, execution_id: ExecutionId) -> dict[str, Any]:
    """Delete an execution and its data for good."""
    with in_its_words("delete execution"):
        execution = await ctx.http.get("executions", execution_id, operation="delete execution", resource="Execution")
    # n8n would delete the record of one that goes on.
    if (status := as_map(execution).get("status")) in ("new", "running"):
        raise ConflictError(
            f"Execution '{execution_id}' cannot be deleted: it has not ended yet (status: {status})",
            context={"field": "id"},
            next_step="Wait until it has ended, or use stop_execution (n8n 2 or later).",
        )
    with in_its_words("delete execution"):
        await ctx.http.delete("executions", execution_id, operation="delete execution", resource="Execution")
    return {"id": execution_id}


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
    examples=[Example("Stop a running execution", {"id": "1204"}, shown_only=True)],
    output_schema=_BRIEF,
)
async def stop_execution(ctx: Context, execution_id: ExecutionId) -> dict[str, Any]:
    """Stop a running or waiting execution. Needs n8n 2 or later."""
    with in_its_words("stop execution"):
        response = await ctx.http.post(
            *("executions", execution_id, "stop"), operation="stop execution", resource="Execution"
        )
    return _brief({"id": execution_id, **as_map(response.data)}, response.warning)
