"""Asking Redmine, and who it takes us for.

A key that Redmine does not know reads whatever is public, and everything looks well. So an account is looked at where
it shows: behind the first answer, and ahead of the first change, then again after some minutes.
"""

from __future__ import annotations

from typing import Any, Final, NotRequired, TypedDict, Unpack

from tools_app import heavy
from tools_app.context import Context
from tools_app.errors import ApiError, NotFoundError, ToolError, UpstreamInvalidResponseError
from tools_app.packs.redmine.memory import remembered
from tools_app.packs.redmine.shapes import shown
from tools_app.schemas import Schema

# For so long an account is what it was.
_TRUSTED_SECONDS: Final = 300.0
_REFUSED: Final = frozenset({401, 403})


class Asking(TypedDict):
    operation: str
    resource: NotRequired[str]
    resource_id: NotRequired[str | int]
    params: NotRequired[dict[str, Any]]


async def one(
    ctx: Context, *path: str | int, name: str, operation: str, resource: str = "", include: str = ""
) -> dict[str, Any]:
    """What Redmine says of one thing, whose answer is called `name`."""
    params = {"include": include or None}
    found = await _answer(ctx, *path, kind=dict, name=name, operation=operation, resource=resource, params=params)
    thing: dict[str, Any] = found[name]
    return thing


async def many(
    ctx: Context,
    *path: str | int,
    name: str,
    operation: str,
    resource: str = "",
    resource_id: str | int = "",
    params: dict[str, Any] | None = None,
) -> tuple[list[Any], dict[str, Any]]:
    """What Redmine says of several things, and which of all these are."""
    found = await _answer(
        ctx,
        *path,
        kind=list,
        name=name,
        operation=operation,
        resource=resource,
        resource_id=resource_id,
        params=params,
    )
    things = [thing for thing in found[name] if isinstance(thing, dict)]
    counts = {key: found[key] for key in ("offset", "limit") if isinstance(found.get(key), int)}
    total = found.get("total_count")
    return things, {"total_count": total if isinstance(total, int) else len(things), **counts}


async def page(
    ctx: Context,
    *path: str | int,
    name: str,
    shape: Schema,
    operation: str,
    params: dict[str, Any] | None = None,
    resource: str = "",
    resource_id: str | int = "",
) -> dict[str, Any]:
    """The answer of a tool that lists things."""
    things, counts = await many(
        ctx, *path, name=name, operation=operation, resource=resource, resource_id=resource_id, params=params
    )
    seen = await heavy.by_size(things, lambda: [shown(shape, thing) for thing in things])
    return {name: seen, **counts}


async def _answer(
    ctx: Context,
    *path: str | int,
    kind: type,
    name: str,
    operation: str,
    resource: str = "",
    resource_id: str | int = "",
    params: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An answer that has a `name`, and what is to be expected there.

    Raises:
        UpstreamInvalidResponseError: it is something else.
    """
    if resource and not resource_id and len(path) > 1:
        resource_id = path[1]
    found = await ask(ctx, *path, operation=operation, resource=resource, resource_id=resource_id, params=params or {})
    if not isinstance(found, dict) or not isinstance(found.get(name), kind):
        raise UpstreamInvalidResponseError(
            f"Failed to {operation}: Redmine answered something else than its interface promises",
            context={"operation": operation},
            next_step="An operator should check the base URL of this connection.",
        )
    return found


async def ask(ctx: Context, *path: str | int, **sending: Unpack[Asking]) -> Any:
    """What Redmine says to whoever the key is of; if it is nobody's, that is said first, whatever else is wrong."""
    try:
        found = (await ctx.http.request("GET", *path, **sending)).data
    except (ApiError, NotFoundError) as error:
        if isinstance(error, NotFoundError) or error.context.get("statusCode") in _REFUSED:
            await check(ctx)
        raise
    await check(ctx)
    return found


async def check(ctx: Context) -> None:
    """Make sure that Redmine knows the key.

    Raises:
        ToolError: it does not, and would take us for nobody.
    """
    try:
        await me(ctx)
    except ApiError as error:
        if error.context.get("statusCode") in _REFUSED:
            raise
        ctx.log.warning("Redmine does not say whose key this is: %s", error.message)
    except ToolError as error:
        # What was asked for tells better what is wrong.
        ctx.log.warning("Redmine does not say whose key this is: %s", error.message)


async def me(ctx: Context) -> dict[str, Any]:
    """The user whose key this is; of what Redmine says of it only this is kept."""

    async def asked() -> dict[str, Any]:
        found = await ctx.http.get("users", "current", operation="check the key")
        user = found.get("user") if isinstance(found, dict) else None
        return {key: user.get(key) for key in ("id", "admin")} if isinstance(user, dict) else {}

    user: dict[str, Any] = await remembered(ctx, "me", _TRUSTED_SECONDS, asked)
    return user
