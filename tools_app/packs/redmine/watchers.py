"""Who watches an issue. https://www.redmine.org/projects/redmine/wiki/Rest_Issues#Adding-a-watcher"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.context import Context
from tools_app.errors import ToolError, UpstreamValidationError
from tools_app.examples import Example
from tools_app.packs.redmine import account, pack, shapes, writing
from tools_app.packs.redmine.arguments import Id
from tools_app.tool import Hints

_TAGS: Final = ("redmine", "issues", "write")
_Issue = Annotated[Id, Field(description="The number of the issue.")]
_User = Annotated[Id, Field(description="The id of the user.")]


@pack.tool(
    title="Add watcher",
    category="issues",
    tags=_TAGS,
    keywords=(
        "keep informed, in the loop, notify somebody, tell of changes, follow",
        "知らせる 通知する 進み具合を伝える 関係者に入れる",
    ),
    hints=Hints(destructive=False, idempotent=True),
    examples=[Example("Let a user watch an issue", {"issue_id": 1, "user_id": 5}, shown_only=True)],
    output_schema=shapes.written(),
)
async def add_issue_watcher(ctx: Context, issue_id: _Issue, user_id: _User) -> dict[str, Any]:
    """Let a user watch an issue: they hear of its changes."""
    await account.check(ctx)
    path, body = ("issues", issue_id, "watchers"), {"user_id": user_id}
    await ctx.http.post(*path, operation="add watcher", resource="Issue", json=body)
    return await _told(ctx, issue_id, user_id, watching=True)


@pack.tool(
    title="Remove watcher",
    category="issues",
    tags=_TAGS,
    keywords=("no more mails, stop notifying, unfollow, unsubscribe", "通知をやめる 知らせない 外す"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Let a user stop watching", {"issue_id": 1, "user_id": 5}, shown_only=True)],
    output_schema=shapes.written(),
)
async def remove_issue_watcher(ctx: Context, issue_id: _Issue, user_id: _User) -> dict[str, Any]:
    """Let a user watch an issue no longer."""
    await account.check(ctx)
    await ctx.http.delete("issues", issue_id, "watchers", user_id, operation="remove watcher", resource="Issue")
    return await _told(ctx, issue_id, user_id, watching=False)


async def _told(ctx: Context, issue_id: int, user_id: int, *, watching: bool) -> dict[str, Any]:
    verb = "added to" if watching else "removed from"
    message = f"User #{user_id} was successfully {verb} the watchers of issue #{issue_id}."
    try:
        issue = await account.one(ctx, "issues", issue_id, name="issue", operation="get issue", include="watchers")
    except ToolError as error:
        return writing.done(message, warnings=[f"It could not be read back: {error.message}"])
    if not isinstance(issue.get("watchers"), list):
        return writing.done(message, warnings=["The account of this connection cannot see who watches it."])
    if any(one.get("id") == user_id for one in shapes.parts_of(issue, "watchers")) is not watching:
        raise UpstreamValidationError(
            f"User #{user_id} was not {verb} the watchers of issue #{issue_id}: Redmine accepted the request, and "
            "ignored it",
            next_step="There may be no such user, or it may not see the issue.",
        )
    return writing.done(message)
