"""The state of a workflow before a change: stored by the hub for a day, and restored if the change fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from tools_app.packs.n8n import drafts
from tools_app.packs.n8n.runs import as_map
from tools_app.packs.n8n.summary import quoted
from tools_app.packs.n8n.workflows import as_object, fetched
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

# n8n's statuses for an update that was saved but could not be activated.
_HALVES: Final = frozenset({400, 403, 409})
_UNKNOWN_OUTCOME: Final = (UpstreamUnavailableError, ToolTimeoutError, UpstreamInvalidResponseError)
_PARTS: Final = ("name", "nodes", "connections", "settings")
_KEY: Final = "workflowBefore"
_HOURS: Final = 24
# Handles are 32 hexadecimal digits, and n8n's versions have hyphens.
_HYPHEN: Final = "-"


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An update that was sent: the state before and after it, and where the former is stored."""

    state: Mapping[str, Any]
    body: Mapping[str, Any]
    stored: tuple[str, str, str]  # handle, end of its lifetime, why it is not stored


# The last attempt of each call that runs: the client is the call's own.
_attempts: Final[WeakKeyDictionary[ApiClient, _Attempt]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Before:
    """A workflow before an update, and the handle under which the hub stores it."""

    ctx: Context
    workflow_id: str
    state: Mapping[str, Any]
    handle: str = ""
    expires_at: str = ""
    not_kept: str = ""

    @property
    def answer_part(self) -> dict[str, Any]:
        """For the answer of an update tool."""
        return {"previousState": {"handle": self.handle, "expiresAt": self.expires_at}} if self.handle else {}

    @property
    def warnings(self) -> list[str]:
        return [f"The previous state was not saved: {self.not_kept}."] if self.not_kept else []

    @property
    def call(self) -> str:
        """The call that restores it."""
        return f"update_workflow(id: {quoted(self.workflow_id)}, restore: {quoted(self.handle)})"

    async def after(self, error: ToolError, body: Mapping[str, Any]) -> None:
        """Restore the previous state if a failed update was saved anyway, and say so in the error."""
        status = error.context.get("statusCode")
        active = self.state.get("active") is True
        if isinstance(error, _UNKNOWN_OUTCOME) and self.handle:
            step = f"{error.next_step} If the change was made, {self.call} restores the previous state."
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
            error.next_step = "The workflow has been changed since then: get_workflow shows its current state."
            return
        if await self.put_back(active=active):
            error.next_step = (
                "n8n had saved the change anyway, and the hub has restored the previous state. Fix the reason that n8n "
                "gives, and update it again."
            )
            return
        back = f" {self.call} restores the previous state." if self.handle else ""
        error.next_step = (
            "n8n has saved the change anyway, and the hub could not restore the previous state: get_workflow shows the "
            f"current one.{back}"
        )

    async def put_back(self, *, active: bool) -> bool:
        """Restore the workflow. Returns whether n8n then has the previous state."""
        body = drafts.restored(self.state)
        try:
            await self.ctx.http.put(
                "workflows", self.workflow_id, operation="update workflow", resource="Workflow", json=body
            )
        except ToolError:
            # It may have been saved anyway, like the change before it.
            self.ctx.log.info("n8n answers with an error to its previous state", exc_info=True)
        now = await self._now()
        if now is not None and active and now.get("active") is not True:
            # n8n 1 has deactivated it.
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


async def save(ctx: Context, workflow_id: str, current: Mapping[str, Any], body: Mapping[str, Any]) -> Before:
    """Store the state of a workflow, which is about to become `body`, for its caller, who can restore it.

    If an earlier attempt of the same call has made its change, the state before that attempt counts.
    """
    first = _attempts.get(ctx.http)
    if first is not None and _same(current, first.body):
        return Before(ctx, workflow_id, first.state, *first.stored)
    before = await stored(ctx, workflow_id, current)
    _attempts[ctx.http] = _Attempt(current, body, (before.handle, before.expires_at, before.not_kept))
    return before


async def stored(ctx: Context, workflow_id: str, current: Mapping[str, Any]) -> Before:
    """The state of a workflow, stored for its caller if the hub stores answers."""
    state = {part: current.get(part) for part in _PARTS}
    try:
        saved = await ctx.answers.keep({_KEY: {"id": workflow_id, **state}}, hours=_HOURS)
    except NotKeptError as error:
        return Before(ctx, workflow_id, current, not_kept=str(error))
    return Before(ctx, workflow_id, current, saved.handle, saved.expires_at.isoformat(timespec="seconds"))


async def undo(ctx: Context, workflow_id: str, state: Mapping[str, Any], error: ToolError) -> None:
    """Restore the state before a change whose second part failed, and say so in the error."""
    restored = await Before(ctx, workflow_id, state).put_back(active=state.get("active") is True)
    outcome = (
        "The hub has restored the previous state of the workflow."
        if restored
        else "Other parts of the edit were saved and could not be undone: get_workflow shows the current state."
    )
    error.next_step = f"{error.next_step} {outcome}".lstrip()


async def saved_state(ctx: Context, current: Mapping[str, Any], workflow_id: str, handle: str) -> Mapping[str, Any]:
    """The state that `save` stored under this handle, or that version of n8n's own history.

    Raises:
        AnswerNotFoundError: this caller has no such handle, or it has expired.
        NotFoundError: n8n has no such version.
        InvalidArgumentsError: the handle is not of a state of this workflow.
    """
    if _HYPHEN in handle:
        operation = "get version"
        version = await ctx.http.get(
            *("workflows", workflow_id, handle), operation=operation, resource="Version", resource_id=handle
        )
        version = as_object(version, operation)
        # n8n's versions have nodes and connections only.
        return {**current, "nodes": version.get("nodes"), "connections": version.get("connections")}
    value = await ctx.answers.value(handle)
    state = as_map(value.get(_KEY)) if isinstance(value, Mapping) else {}
    if state.get("id") != workflow_id:
        problem = Problem("/restore", f"{handle!r} is not a previous state of the workflow {workflow_id!r}")
        raise InvalidArgumentsError(problems=[problem], next_step="Use the handle from previousState of an update.")
    return state


def _same(workflow: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether n8n has what it was sent. It adds settings of its own, but never removes one."""
    settings = as_map(workflow.get("settings"))
    return all(workflow.get(part) == body[part] for part in ("name", "nodes", "connections")) and all(
        settings.get(key) == value for key, value in body["settings"].items()
    )
