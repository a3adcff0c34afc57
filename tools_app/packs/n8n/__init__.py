"""n8n: its workflows and executions, in answers that fit an agent. https://docs.n8n.io/api/

Undocumented facts about n8n that this pack depends on are noted next to the code that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, Field

from tools_app.sdk.accounts import ConnectionKind, ConnectionOption
from tools_app.sdk.errors import ApiError, NotFoundError, ToolError
from tools_app.sdk.pack import Pack
from tools_app.sdk.signatures import OrNumber, Says

if TYPE_CHECKING:
    from tools_app.http import UpstreamRefusal


def explain_refusal(refusal: UpstreamRefusal) -> ToolError | None:
    """The error that n8n means where its status code says something else."""
    request = refusal.request
    if refusal.status == 409 and request.operation == "delete workflow":
        return ApiError(
            "Failed to delete workflow",
            context=request.context(statusCode=409, errorDetails=", ".join(refusal.reasons) or None),
            next_step="n8n does not delete active workflows: call deactivate_workflow first.",
        )
    if request.operation == "list versions" and any("query parameter" in reason for reason in refusal.reasons):
        # n8n 1 takes the last part of the path for a version, which has no parameters.
        return ApiError(
            "Failed to list versions: this n8n is too old to list the versions of a workflow over its API",
            context=request.context(statusCode=refusal.status),
            next_step="update_workflow can restore a version whose id you know. n8n 2 and later list them.",
        )
    if any("license does not allow" in reason for reason in refusal.reasons):
        return ApiError(
            f"Failed to {request.operation}: the license of this n8n does not include them",
            context=request.context(statusCode=refusal.status, errorDetails=", ".join(refusal.reasons)),
            next_step="Do without them, or ask the owner of this n8n.",
        )
    # The body for an unknown path; for an unknown resource it is `Not Found` or a sentence.
    unknown_path = refusal.status == 404 and refusal.reasons == ("not found",)
    if unknown_path and (request.operation == "list folders" or request.operation.endswith(" data table rows")):
        return ApiError(
            f"Failed to {request.operation}: this n8n is too old for them over its API",
            context=request.context(statusCode=404),
            next_step="n8n 2 and later have them. Do without them, or ask the owner of this n8n.",
        )
    if request.operation in ("list credentials", "list data-tables") and refusal.status in (404, 405):
        return ApiError(
            f"Failed to {request.operation}: this n8n is too old to list them over its API",
            context=request.context(statusCode=refusal.status),
            next_step="n8n 2 and later list them. A workflow that uses one shows its id: get_workflow with raw: true.",
        )
    if any('must match format "nanoid"' in reason for reason in refusal.reasons):
        return NotFoundError(
            f"{request.resource} '{request.resource_id}' not found",
            context={
                "operation": request.operation,
                "resourceType": request.resource,
                "resourceId": request.resource_id,
            },
            next_step="list_n8n_resources(kind: 'dataTables') has the ids.",
        )
    if refusal.status != 404:
        return None
    if request.operation == "stop execution" and unknown_path:
        return ApiError(
            "Failed to stop execution: this n8n is too old to stop executions over its API",
            context=request.context(statusCode=404),
            next_step="Stop it in n8n's editor. n8n 2 and later can stop executions over the API.",
        )
    if request.writes and any("permission" in reason for reason in refusal.reasons) and request.resource_id:
        # n8n 2 says so for workflows that do not exist and for those of other users.
        return NotFoundError(
            f"{request.resource} '{request.resource_id}' not found",
            context={
                "operation": request.operation,
                "resourceType": request.resource,
                "resourceId": request.resource_id,
            },
            next_step="It does not exist, or the n8n account of this connection may not change it.",
        )
    return None


NODE_TYPES: Final = ConnectionOption(
    "node_types",
    "File with the node types of this n8n, below TOOLHUB_FILE_ROOT: what `n8n export:nodes` writes.",
    default="",
)
N8N: Final = ConnectionKind(
    "n8n",
    url_variable="N8N_URL",
    secret_variable="N8N_API_KEY",  # noqa: S106 - the name of a variable
    header="X-N8N-API-KEY",
    path="/api/v1",
    probe="/workflows?limit=1",
    explain=explain_refusal,
    options=(NODE_TYPES,),
)

pack: Final = Pack(
    "n8n",
    version="1.2.0",
    title="n8n",
    description="Workflows, executions and data tables of n8n: read, explain, change and run them.",
    connection=N8N,
    untrusted=True,
)


def _id(value: str) -> str:
    if not (value.isascii() and value.replace("-", "").replace("_", "").isalnum()):
        raise ValueError("letters, digits, - and _ only")
    return value


# n8n generates numbers or 16 letters; imported workflows keep the ids they came with.
Id: Any = Annotated[str, Field(min_length=1, max_length=64), OrNumber(), AfterValidator(_id)]
WorkflowId = Annotated[Id, "Id of the workflow", Says("Workflow ID is required"), Field(alias="id")]
ExecutionId = Annotated[Id, "Id of the execution", Says("Execution ID is required"), Field(alias="id")]
