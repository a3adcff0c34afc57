"""Watchers of an issue. https://www.redmine.org/projects/redmine/wiki/Rest_Issues#Adding-a-watcher"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, identity, lookups, pack, reasons, shapes, writing
from tools_app.packs.redmine.arguments import Id, Name, is_id
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ToolError, UpstreamValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

_TAGS: Final = ("redmine", "issues", "write")
_Issue = Annotated[Id, Field(description="Issue number.")]
_User = Annotated[Name, Field(description="me, or id or name of a project member.")]


@pack.tool(
    title="Add watcher",
    category="issues",
    tags=_TAGS,
    keywords=(
        "keep informed, in the loop, notify somebody, tell of changes, follow",
        "知らせる 通知する 進み具合を伝える 関係者に入れる",
    ),
    hints=Hints(destructive=False, idempotent=True),
    examples=[Example("Let a user watch an issue", {"issue_id": 1, "user_id": "5"}, shown_only=True)],
    output_schema=shapes.written(),
)
async def add_issue_watcher(ctx: Context, issue_id: _Issue, user_id: _User) -> dict[str, Any]:
    """Add a watcher to an issue: notified of its changes."""
    await identity.check(ctx)
    user = await _user(ctx, issue_id, user_id)
    async with reasons.with_reasons(ctx, "add watcher", issue=issue_id):
        path, body = ("issues", issue_id, "watchers"), {"user_id": user}
        await ctx.http.post(*path, operation="add watcher", resource="Issue", json=body)
    return await _verified_answer(ctx, issue_id, user, watching=True)


@pack.tool(
    title="Remove watcher",
    category="issues",
    tags=_TAGS,
    keywords=("no more mails, stop notifying, unfollow, unsubscribe", "通知をやめる 知らせない 外す"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Let a user stop watching", {"issue_id": 1, "user_id": "5"}, shown_only=True)],
    output_schema=shapes.written(),
)
async def remove_issue_watcher(ctx: Context, issue_id: _Issue, user_id: _User) -> dict[str, Any]:
    """Remove a watcher from an issue."""
    await identity.check(ctx)
    user = await _user(ctx, issue_id, user_id)
    async with reasons.with_reasons(ctx, "remove watcher", issue=issue_id):
        await ctx.http.delete("issues", issue_id, "watchers", user, operation="remove watcher", resource="Issue")
    return await _verified_answer(ctx, issue_id, user, watching=False)


async def _user(ctx: Context, issue_id: int, user: str) -> int:
    project: int | str = ""
    if user != "me" and not is_id(user):
        issue = await account.one(ctx, "issues", issue_id, name="issue", operation="get issue", resource="Issue")
        project = shapes.part_of(issue, "project").get("id", "")
    return await lookups.user_id(ctx, user, "user_id", project)


async def _verified_answer(ctx: Context, issue_id: int, user_id: int, *, watching: bool) -> dict[str, Any]:
    verb = "added to" if watching else "removed from"
    message = f"User #{user_id} was successfully {verb} the watchers of issue #{issue_id}."
    try:
        issue = await account.one(ctx, "issues", issue_id, name="issue", operation="get issue", include="watchers")
    except ToolError as error:
        return writing.done(message, warnings=[f"The result could not be verified: {error.message}"])
    if not isinstance(issue.get("watchers"), list):
        return writing.done(message, warnings=["The account of this connection cannot see the watchers."])
    if any(one.get("id") == user_id for one in shapes.parts_of(issue, "watchers")) is not watching:
        raise UpstreamValidationError(
            f"User #{user_id} was not {verb} the watchers of issue #{issue_id}: Redmine accepted the request but "
            "ignored it",
            next_step="The user may not exist, or may not be allowed to see the issue.",
        )
    return writing.done(message)
