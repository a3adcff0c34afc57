"""The state of a workflow before an update: kept by the hub, and put back where the update fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from tools_app.packs.n8n import drafts
from tools_app.packs.n8n.runs import mapped
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import fetched
from tools_app.sdk.context import Context, NotKeptError
from tools_app.sdk.errors import (
    ApiError,
    InvalidArgumentsError,
    Problem,
    ToolError,
    ToolTimeoutError,
    UpstreamInvalidResponseError,
    UpstreamUnavailableError,
)

if TYPE_CHECKING:
    from tools_app.http import ApiClient

# With these n8n says that it could not make active what it has saved.
_HALVES: Final = frozenset({400, 403, 409})
_UNKNOWN_OUTCOME: Final = (UpstreamUnavailableError, ToolTimeoutError, UpstreamInvalidResponseError)
_PARTS: Final = ("name", "nodes", "connections", "settings")
_KEY: Final = "workflowBefore"


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An update that was sent: from what state, to which, and what was told of keeping the former."""

    state: Mapping[str, Any]
    body: Mapping[str, Any]
    told: tuple[str, str, str]


# The last attempt of each call that runs: the client is the call's own.
_attempts: Final[WeakKeyDictionary[ApiClient, _Attempt]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Before:
    """A workflow as it was, and where the hub keeps that."""

    ctx: Context
    workflow_id: str
    state: Mapping[str, Any]
    handle: str = ""
    expires_at: str = ""
    not_kept: str = ""

    @property
    def told(self) -> dict[str, Any]:
        """For the answer of an update."""
        return {"previousState": {"handle": self.handle, "expiresAt": self.expires_at}} if self.handle else {}

    @property
    def warnings(self) -> list[str]:
        return [f"The state before this update was not kept: {self.not_kept}."] if self.not_kept else []

    @property
    def call(self) -> str:
        """What puts it back."""
        return f"update_workflow(id: {quoted(self.workflow_id)}, restore: {quoted(self.handle)})"

    async def after(self, error: ToolError, body: Mapping[str, Any]) -> None:
        """An update has failed: put back what it has changed all the same, and say so in the error."""
        status = error.context.get("statusCode")
        active = self.state.get("active") is True
        if isinstance(error, _UNKNOWN_OUTCOME) and self.handle:
            step = f"{error.next_step} If the change was made, {self.call} puts back what was there before."
            error.next_step = step.lstrip()
        if not isinstance(error, ApiError) or not isinstance(status, int):
            return
        if status < 500 and not (active and status in _HALVES):
            return
        now = await self._now()
        if now is None or now.get("updatedAt") == self.state.get("updatedAt"):
            return
        error.message = "Failed to update workflow"
        if not _same(now, body):
            error.next_step = "The workflow has changed meanwhile: get_workflow shows what it is now."
            return
        if await self._put_back(active=active):
            error.next_step = (
                "n8n had saved the change all the same, and the hub has put back what was there before. Correct what "
                "n8n names as the reason, and update it again."
            )
            return
        back = f" {self.call} puts back what was there before." if self.handle else ""
        error.next_step = (
            "n8n has saved the change all the same, and the hub could not put back what was there before: get_workflow "
            f"shows what it is now.{back}"
        )

    async def _put_back(self, *, active: bool) -> bool:
        """Whether the workflow is again what it was, as n8n itself tells."""
        body = drafts.restored(self.state)
        try:
            await self.ctx.http.put(
                "workflows", self.workflow_id, operation="update workflow", resource="Workflow", json=body
            )
        except ToolError:
            # It may have been saved all the same, as the change before it was.
            self.ctx.log.info("n8n answers with an error to the state that it had before", exc_info=True)
        now = await self._now()
        if now is not None and active and now.get("active") is not True:
            # n8n 1 has switched it off.
            try:
                await self.ctx.http.post(
                    *("workflows", self.workflow_id, "activate"),
                    operation="activate workflow",
                    resource="Workflow",
                    json={},
                )
            except ToolError:
                self.ctx.log.info("n8n does not activate the workflow again", exc_info=True)
            now = await self._now()
        return now is not None and _same(now, body) and (now.get("active") is True) is active

    async def _now(self) -> Mapping[str, Any] | None:
        try:
            return await fetched(self.ctx, self.workflow_id)
        except ToolError:
            return None


async def keep(ctx: Context, workflow_id: str, current: Mapping[str, Any], body: Mapping[str, Any]) -> Before:
    """Keep the state of a workflow, which is about to become `body`, for its caller, who can put it back.

    Where an earlier attempt of the same call has made its change, what counts is the state before that one.
    """
    first = _attempts.get(ctx.http)
    if first is not None and _same(current, first.body):
        return Before(ctx, workflow_id, first.state, *first.told)
    state = {part: current.get(part) for part in _PARTS}
    try:
        kept = await ctx.answers.keep({_KEY: {"id": workflow_id, **state}})
        told = (kept.handle, kept.expires_at.isoformat(timespec="seconds"), "")
    except NotKeptError as error:
        told = ("", "", str(error))
    _attempts[ctx.http] = _Attempt(current, body, told)
    return Before(ctx, workflow_id, current, *told)


async def kept(ctx: Context, workflow_id: str, handle: str) -> Mapping[str, Any]:
    """The state that `keep` has kept under this handle.

    Raises:
        AnswerNotFoundError: there is nothing under it for this caller, or not any more.
        InvalidArgumentsError: what is there is no state of this workflow.
    """
    value = await ctx.answers.value(handle)
    state = mapped(value.get(_KEY)) if isinstance(value, Mapping) else {}
    if state.get("id") != workflow_id:
        problem = Problem("/restore", f"{handle!r} is no earlier state of the workflow {workflow_id!r}")
        raise InvalidArgumentsError(problems=[problem], next_step="previousState of an update has the handle to send.")
    return state


def _same(workflow: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether n8n has what it was sent. It adds settings of its own, and never takes one away."""
    settings = mapped(workflow.get("settings"))
    return all(workflow.get(part) == body[part] for part in ("name", "nodes", "connections")) and all(
        settings.get(key) == value for key, value in body["settings"].items()
    )
