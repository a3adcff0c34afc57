"""GET requests to Redmine, and checks of its responses."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, Unpack

from tools_app.packs.redmine import identity, reasons
from tools_app.packs.redmine.shapes import shown
from tools_app.sdk import heavy
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, NotFoundError, UpstreamInvalidResponseError
from tools_app.sdk.schemas import Schema


class RedmineRequest(TypedDict):
    operation: str
    resource: NotRequired[str]
    resource_id: NotRequired[str | int]
    params: NotRequired[dict[str, Any]]


async def one(
    ctx: Context,
    *path: str | int,
    name: str,
    operation: str,
    resource: str = "",
    resource_id: str | int = "",
    include: str = "",
) -> dict[str, Any]:
    """One object, which the response has under `name`."""
    params = {"include": include or None}
    response = await _answer(
        ctx, *path, kind=dict, name=name, operation=operation, resource=resource, resource_id=resource_id, params=params
    )
    thing: dict[str, Any] = response[name]
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
    """A list of objects, and its position in the whole list."""
    response = await _answer(
        ctx, *path, kind=list, name=name, operation=operation, resource=resource, resource_id=resource_id, params=params
    )
    things = [thing for thing in response[name] if isinstance(thing, dict)]
    counts = {key: response[key] for key in ("offset", "limit") if isinstance(response.get(key), int)}
    total = response.get("total_count")
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
    """The answer of a tool that lists objects."""
    things, counts = await many(
        ctx, *path, name=name, operation=operation, resource=resource, resource_id=resource_id, params=params
    )
    filtered = await heavy.by_size(things, lambda: [shown(shape, thing) for thing in things])
    return {name: filtered, **counts}


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
    """A response that has a value of type `kind` under `name`.

    Raises:
        UpstreamInvalidResponseError: it does not.
    """
    if resource and not resource_id and len(path) > 1:
        resource_id = path[1]
    data = await ask(ctx, *path, operation=operation, resource=resource, resource_id=resource_id, params=params or {})
    if not isinstance(data, dict) or not isinstance(data.get(name), kind):
        raise UpstreamInvalidResponseError(
            f"Failed to {operation}: Redmine sent an unexpected response",
            context={"operation": operation},
            next_step="An operator should check the base URL of this connection.",
        )
    return data


async def ask(ctx: Context, *path: str | int, **options: Unpack[RedmineRequest]) -> Any:
    """GET from Redmine. An invalid API key is reported before any other error.

    Raises:
        ToolError: with the reason, where Redmine gives none.
    """
    async with reasons.with_reasons(ctx, options["operation"], **_about(path, options)):
        try:
            response = (await ctx.http.request("GET", *path, **options)).data
        except (ApiError, NotFoundError) as error:
            if isinstance(error, NotFoundError) or error.context.get("statusCode") in identity.REFUSED:
                await identity.check(ctx)
            raise
    await identity.check(ctx)
    return response


def _about(path: tuple[str | int, ...], options: RedmineRequest) -> reasons.About:
    """The object of a request, by its path."""
    match path:
        case ("issues", number):
            return {"issue": number}
        case ("time_entries", number):
            return {"entry": number}
        case ("projects", key, *_):
            return {"project": key}
    return {"project": options.get("resource_id", "")} if options.get("resource") == "Project" else {}
