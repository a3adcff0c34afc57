"""Members of projects and their roles. https://www.redmine.org/projects/redmine/wiki/Rest_Memberships"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, identity, lookups, memory, pack, reasons, shapes, writing
from tools_app.packs.redmine.arguments import Limit, Name, Offset, is_id
from tools_app.packs.redmine.shapes import part_of, parts_of
from tools_app.sdk.checker import rejected
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, ToolError, UpstreamValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

_TAGS: Final = ("redmine", "projects")
_WRITES: Final = (*_TAGS, "write")
_Project = Annotated[Name, Field(description="Id, identifier or name.")]
_PAGE: Final = 100
_MOST_PAGES: Final = 10


@pack.tool(
    title="List members",
    category="projects",
    tags=_TAGS,
    keywords=("team, who works here, people of a project, roles, groups", "メンバー一覧 参加者 担当者 役割"),
    hints=Hints(read_only=True),
    examples=[Example("The team of a project", {"project_id": "website"}, shown_only=True)],
    output_schema=shapes.page("memberships", shapes.MEMBERSHIP),
)
async def list_members(ctx: Context, project_id: _Project, limit: Limit = 100, offset: Offset = 0) -> dict[str, Any]:
    """List the members of a project, users and groups, and their roles."""
    key = await lookups.project_key(ctx, project_id)
    return await account.page(
        ctx,
        *("projects", key, "memberships"),
        name="memberships",
        shape=shapes.MEMBERSHIP,
        operation="list memberships",
        resource="Project",
        params={"limit": limit, "offset": offset},
    )


@pack.tool(
    title="List roles",
    category="lists",
    tags=("redmine", "lists"),
    keywords=("kinds of members, permissions, manager, developer", "ロール 役割の種類 権限"),
    hints=Hints(read_only=True),
    examples=[
        Example("All roles", expected_result={"roles": [{"id": "<integer>", "name": "<string>"}, "<more>"]}),
    ],
    output_schema=shapes.page("roles", shapes.NAMED),
)
async def list_roles(ctx: Context) -> dict[str, Any]:
    """List the roles that members can have."""
    return await account.page(ctx, "roles", name="roles", shape=shapes.NAMED, operation="list roles")


@pack.tool(
    title="Set member",
    category="projects",
    tags=_WRITES,
    keywords=(
        "add somebody to a project, give access, change a role, join the team",
        "メンバーに追加 役割を変える 参加",
    ),
    hints=Hints(destructive=True, idempotent=True),
    examples=[
        Example("Add a developer", {"project_id": "website", "user_id": "5", "roles": ["Developer"]}, shown_only=True)
    ],
    output_schema=shapes.written("membership"),
)
async def set_member(
    ctx: Context,
    project_id: _Project,
    user_id: Annotated[Name, "User or group: id, me, or for a member the name."],
    roles: Annotated[list[Name], Field(min_length=1, max_length=50), "All roles: ids or names, from list_roles."],
) -> dict[str, Any]:
    """Add a member to a project, or replace the roles of one."""
    key = await lookups.project_key(ctx, project_id)
    await identity.check(ctx)
    # Checked here: for an unknown one, Redmine refuses the change, and takes all roles away.
    role_ids = [await lookups.id_of(ctx, lookups.ROLE, role, "roles") for role in roles]
    members = await _members(ctx, key)
    user, membership = await _member(ctx, members, user_id)
    operation = "set member"
    async with reasons.with_reasons(ctx, operation, project=key):
        if membership is None:
            body = {"membership": {"user_id": user, "role_ids": role_ids}}
            path = ("projects", key, "memberships")
            await ctx.http.post(*path, operation=operation, resource="Project", json=body)
        else:
            body = {"membership": {"role_ids": role_ids}}
            number = membership["id"]
            await ctx.http.put("memberships", number, operation=operation, resource="Member", json=body)
    memory.forget(ctx)
    return await _verified(ctx, key, user, role_ids, "changed in" if membership else "added to")


@pack.tool(
    title="Remove member",
    category="projects",
    tags=_WRITES,
    keywords=("take somebody off a project, no more access, leaves the team", "メンバーから外す 離れる 権限を外す"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Take a user off", {"project_id": "website", "user_id": "5"}, shown_only=True)],
    output_schema=shapes.written(),
)
async def remove_member(
    ctx: Context, project_id: _Project, user_id: Annotated[Name, "User or group: id, me, or name."]
) -> dict[str, Any]:
    """Remove a member from a project."""
    key = await lookups.project_key(ctx, project_id)
    await identity.check(ctx)
    user, membership = await _member(ctx, await _members(ctx, key), user_id)
    if membership is None:
        reason = "the project has no such member"
        raise InvalidArgumentsError(problems=[rejected(["user_id"], reason, "a member, from list_members")])
    operation = "remove member"
    async with reasons.with_reasons(ctx, operation, project=key):
        await ctx.http.delete("memberships", membership["id"], operation=operation, resource="Member")
    memory.forget(ctx)
    return writing.done(f"{_name_of(membership) or f'User #{user}'} was successfully removed from project #{key}.")


async def _members(ctx: Context, key: str) -> list[dict[str, Any]]:
    members: list[dict[str, Any]] = []
    for number in range(_MOST_PAGES):
        page, counts = await account.many(
            ctx,
            *("projects", key, "memberships"),
            name="memberships",
            operation="list memberships",
            resource="Project",
            params={"limit": _PAGE, "offset": number * _PAGE},
        )
        members += page
        if not page or len(members) >= counts["total_count"]:
            break
    return members


async def _member(ctx: Context, members: list[dict[str, Any]], user_id: str) -> tuple[int, dict[str, Any] | None]:
    """The id of a user or group, and its membership, if it has one."""
    if user_id == "me":
        number = await lookups.user_id(ctx, "me", "user_id", "")
    elif is_id(user_id):
        number = int(user_id)
    else:
        number = (await _named(ctx, members, user_id)).id
    return number, next((one for one in members if _principal(one).get("id") == number), None)


async def _named(ctx: Context, members: list[dict[str, Any]], name: str) -> lookups.Choice:
    """A member by name; for administrators of Redmine also any user, as only they can list them."""
    choices = lookups.choices_of(members)
    if lookups.only(choices, name) is None and await identity.is_administrator(ctx):
        users, _ = await account.many(
            ctx, "users", name="users", operation="list users", params={"name": name.split()[0], "limit": _PAGE}
        )
        named = [{**user, "name": f"{user.get('firstname', '')} {user.get('lastname', '')}".strip()} for user in users]
        by_login = [{**user, "name": user.get("login", "")} for user in users]
        choices = [*choices, *lookups.choices_of(named), *lookups.choices_of(by_login)]
    return lookups.choose("member", choices, name, "user_id")


def _principal(membership: dict[str, Any]) -> dict[str, Any]:
    return part_of(membership, "user") or part_of(membership, "group")


def _name_of(membership: dict[str, Any]) -> str:
    return str(_principal(membership).get("name", ""))


async def _verified(ctx: Context, key: str, user: int, role_ids: list[int], verb: str) -> dict[str, Any]:
    try:
        members = await _members(ctx, key)
    except ToolError as error:
        warning = f"The result could not be verified: {error.message}"
        return writing.done(f"User #{user} was {verb} project #{key}.", warnings=[warning])
    found = next((one for one in members if _principal(one).get("id") == user), None)
    missing = set(role_ids) - {role.get("id") for role in parts_of(found, "roles")}
    if found is None or missing == set(role_ids):
        raise UpstreamValidationError(
            f"User #{user} was not {verb} project #{key}: Redmine accepted the request but ignored it",
            next_step="The account of this connection may not be allowed to give these roles.",
        )
    shown = shapes.shown(shapes.MEMBERSHIP, found)
    name = _name_of(found) or f"User #{user}"
    extra = [str(role["name"]) for role in parts_of(found, "roles") if role.get("id") not in role_ids]
    if missing or extra:
        # A manager gives only some roles, and roles by way of a group or of the project above stay.
        warning = f"roles: are now {', '.join(str(role.get('name')) for role in parts_of(found, 'roles'))}."
        message = f"{name} was {verb} project #{key}, but not all roles are as requested."
        return writing.done(message, warnings=[warning], partly=True, membership=shown)
    return writing.done(f"{name} was successfully {verb} project #{key}.", membership=shown)
