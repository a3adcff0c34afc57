"""Files that nodes of an execution put out, which n8n calls binary data.

Before version 2, n8n keeps them in the execution unless its operator has chosen another place; since then, always
elsewhere: on its disk, in its database or in a bucket. Its API gives executions only, and nothing from there.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.n8n import ExecutionId, pack
from tools_app.packs.n8n.executions import chosen_run, fetched
from tools_app.packs.n8n.runs import Execution, Run, as_map
from tools_app.packs.n8n.secrecy import readable
from tools_app.packs.n8n.sizes import words
from tools_app.packs.n8n.summary import quoted
from tools_app.sdk import files, heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, NotFoundError, UpstreamInvalidResponseError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

_NOT_IN_NAMES: Final = re.compile(r'[\x00-\x1f/\\?%*:|"\'<>]+')
_MOST_NAMES: Final = 20
_INSTEAD: Final = "Let the workflow send the file where it is needed."


@pack.tool(
    title="Save execution file",
    category="executions",
    tags=("n8n", "execution", "file"),
    keywords=(
        "download binary data of a run, attachment, PDF, image that a step made, export to disk",
        "実行のファイルを保存 バイナリをダウンロード 添付を取り出す",
    ),
    hints=Hints(destructive=False),
    done="File saved",
    guidance=lambda data: {
        "message": "It is in the directory that operators allow for files.",
        "example": f"get_execution(id: {quoted(data['executionId'])})",
    },
    examples=[
        Example(
            "The report that a node made",
            {"id": "1204", "nodeName": "Make PDF", "filePath": "report.pdf"},
            shown_only=True,
        )
    ],
    needs_files=True,
    output_schema={
        "type": "object",
        "properties": {
            "executionId": {"type": "string"},
            "filePath": {"type": "string"},
            "fileName": {"type": "string"},
            "mimeType": {"type": "string"},
            "bytes": {"type": "integer"},
            "_guidance": {"type": "object"},
        },
        "required": ["executionId", "filePath", "bytes"],
    },
)
async def save_execution_file(
    ctx: Context,
    execution_id: ExecutionId,
    node_name: Annotated[str, Field(min_length=1, max_length=256, alias="nodeName"), "Node that put it out"],
    item: Annotated[int, Field(ge=0), "Output item, from 0"] = 0,
    key: Annotated[str, Field(max_length=256), "Its key in `binary` of the item; default: the only one"] = "",
    run_index: Annotated[int | None, Field(ge=0, alias="runIndex"), "Run number; default: the last"] = None,
    file_path: Annotated[
        str, Field(max_length=1000, alias="filePath"), "New file, in the directory that operators allow"
    ] = "",
) -> dict[str, Any]:
    """Save a file that a node put out. For callers on the hub's machine; n8n 2 keeps most files to itself."""
    execution = await fetched(ctx, execution_id)
    about = _file(execution, chosen_run(execution, node_name, run_index), item, key)
    content = await heavy.by_size(str(about.get("data")), _content, about)
    name = str(about.get("fileName") or "")
    path = file_path or _NOT_IN_NAMES.sub("_", name) or f"execution-{execution_id}-{item}"
    await files.write(ctx, path, content, _INSTEAD)
    shown = {field: words(str(about[field]), 200) for field in ("fileName", "mimeType") if about.get(field)}
    return readable({"executionId": execution_id, "filePath": path, **shown, "bytes": len(content)})


def _file(execution: Execution, run: Run, index: int, key: str) -> Mapping[str, Any]:
    """Raises: NotFoundError: there is no such file."""
    items = [item for output in run.outputs for item in output.items]
    found = as_map(as_map(items[index]).get("binary")) if index < len(items) else {}
    if key in found or (not key and len(found) == 1):
        return as_map(found[key or next(iter(found))])
    others = [at for at, item in enumerate(items) if as_map(as_map(item).get("binary"))]
    if found:
        step = f"key must be one of {', '.join(repr(words(each, 100)) for each in list(found)[:_MOST_NAMES])}."
    elif others:
        step = f"Items with files: {', '.join(map(str, others[:_MOST_NAMES]))}."
    else:
        step = "No item of this run has a file. get_execution_by_node shows its items."
    raise NotFoundError(
        f"Item {index} of node '{words(run.node, 256)}' has no file {words(key, 100)!r}"
        if key
        else f"Item {index} of node '{words(run.node, 256)}' has not exactly one file",
        context={"operation": "save execution file", "resourceType": "File", "resourceId": key or str(index)},
        next_step=step,
    )


def _content(about: Mapping[str, Any]) -> bytes:
    """Raises: ApiError: n8n keeps it elsewhere. UpstreamInvalidResponseError: it is not what n8n writes."""
    if about.get("id"):
        place = str(about["id"]).partition(":")[0]
        refused = ApiError(
            f"Failed to save execution file: n8n keeps it in its storage ({words(place, 50)}), which its API does not "
            "give out",
            context={"operation": "save execution file"},
            next_step="Its editor shows it. The workflow can hand it out: a node that sends it, or Extract from File "
            "(to base64), whose item get_execution_by_node reads. With N8N_DEFAULT_BINARY_DATA_MODE=default, the "
            "operator of n8n keeps files in executions.",
        )
        # n8n works: it only does not give the file out.
        refused.blames_upstream = False
        raise refused
    try:
        return base64.b64decode(str(about["data"]), validate=True)
    except (KeyError, binascii.Error, ValueError) as error:
        missing = UpstreamInvalidResponseError(
            "Failed to save execution file: n8n sent no content of it",
            context={"operation": "save execution file"},
            next_step="n8n may have deleted it, or redacted this execution.",
        )
        missing.blames_upstream = False
        raise missing from error
