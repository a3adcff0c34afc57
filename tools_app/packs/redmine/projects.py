"""Projects. https://www.redmine.org/projects/redmine/wiki/Rest_Projects"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from tools_app.packs.redmine import account, custom_fields, identity, lookups, memory, pack, reasons, shapes, writing
from tools_app.packs.redmine.arguments import (
    CustomValue,
    CustomValues,
    Limit,
    Name,
    Offset,
    ProjectInclude,
    is_id,
    without_none,
)
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import OrNumber, Says

_STATUSES: Final = {1: "active", 5: "closed", 9: "archived", 10: "scheduled for deletion"}
_TAGS: Final = ("redmine", "projects")
_WRITES: Final = (*_TAGS, "write")
_PATTERN: Final = "^[a-z0-9][a-z0-9_-]*$"

_Project = Annotated[Name, Field(description="Id, identifier or name.")]
_Module = Literal[
    "boards",
    "calendar",
    "documents",
    "files",
    "gantt",
    "issue_tracking",
    "news",
    "repository",
    "time_tracking",
    "wiki",
]
_Title = Annotated[str, Field(min_length=1, max_length=255, pattern=r"\S", description="Display name.")]
_Long = Annotated[str, Field(max_length=200_000, description="What it is about.")]
_Homepage = Annotated[str, Field(max_length=255, description="Website.")]
_Public = Annotated[bool, Field(description="Visible to non-members.")]
_Parent = Annotated[Name, Field(description="Parent: id, identifier or name.")]
_Inherits = Annotated[bool, Field(description="Inherit the parent's members.")]
_Trackers = Annotated[list[Name], Field(max_length=100), Field(description="Ids or names, from list_trackers.")]
_Modules = Annotated[list[_Module], Field(max_length=10), Field(description="Modules to enable; others are disabled.")]


def _not_a_number(identifier: str) -> str:
    if is_id(identifier):
        raise ValueError("digits alone are an id; expected at least one letter")
    return identifier


def _output(project: Any) -> Any:
    status = project.get("status") if isinstance(project, dict) else None
    words = {"status": _STATUSES.get(status, str(status))} if status is not None else {}
    return shapes.shown(shapes.PROJECT, project | words) if isinstance(project, dict) else {}


_INCLUDED: Final = {"tracker_ids": "trackers", "enabled_module_names": "enabled_modules"}
PROJECT: Final = writing.Noun("project", "projects", "Project", shapes.PROJECT, included=_INCLUDED, show=_output)


@pack.tool(
    title="List projects",
    category="projects",
    tags=_TAGS,
    keywords=("initiatives, programmes, what we are working on, running", "案件一覧 どんな案件 取り組み"),
    hints=Hints(read_only=True),
    examples=[
        Example(
            "The projects this account can see", expected_result={"projects": "<array>", "total_count": "<integer>"}
        )
    ],
    output_schema=shapes.page("projects", shapes.PROJECT),
)
async def list_projects(
    ctx: Context,
    include: ProjectInclude | None = None,
    status: Annotated[
        Literal["active", "closed", "1", "5"],
        OrNumber(),
        Says("status: expected active or closed (1 or 5); Redmine's API never lists archived projects"),
        "1 active, 5 closed; archived ones are never listed.",
    ] = "active",
    limit: Limit = 25,
    offset: Offset = 0,
) -> dict[str, Any]:
    """List projects that this account can see."""
    number = {"active": "1", "closed": "5"}.get(status, status)
    params = without_none({"include": include, "status": number, "limit": limit, "offset": offset})
    projects, counts = await account.many(ctx, "projects", name="projects", operation="list projects", params=params)
    return {"projects": [_output(project) for project in projects], **counts}


@pack.tool(
    title="Show project",
    category="projects",
    tags=_TAGS,
    keywords=("description of a project, homepage, overview, about", "プロジェクトの概要 案件の詳細 説明"),
    hints=Hints(read_only=True),
    examples=[Example("A project with its trackers", {"id": "website", "include": "trackers"}, shown_only=True)],
    output_schema=shapes.one("project", shapes.PROJECT),
)
async def show_project(ctx: Context, id: _Project, include: ProjectInclude | None = None) -> dict[str, Any]:
    """Get a project."""
    return {"project": _output(await _project(ctx, await lookups.project_key(ctx, id, "id"), include or ""))}


@pack.tool(
    title="Create project",
    category="projects",
    tags=_WRITES,
    keywords=("set up a project, subproject, new initiative, space, client", "案件を立ち上げる 新規案件 立ち上げ 開設"),
    hints=Hints(destructive=False),
    examples=[
        Example(
            "A private project",
            {"name": "Audit", "identifier": "audit", "is_public": False},
            shown_only=True,
        )
    ],
    output_schema=shapes.written("project"),
)
async def create_project(
    ctx: Context,
    name: _Title,
    identifier: Annotated[
        str,
        Field(min_length=1, max_length=100, pattern=_PATTERN),
        AfterValidator(_not_a_number),
        "For URLs; not only digits.",
    ],
    description: _Long | None = None,
    homepage: _Homepage | None = None,
    is_public: _Public = True,
    parent_id: _Parent | None = None,
    inherit_members: _Inherits = False,
    tracker_ids: _Trackers | None = None,
    enabled_module_names: _Modules | None = None,
    custom_values: Annotated[CustomValues | None, Field(alias="custom_fields")] = None,
) -> dict[str, Any]:
    """Create a project."""
    payload = without_none(
        {
            "name": name,
            "identifier": identifier,
            "description": description,
            "homepage": homepage,
            "is_public": is_public,
            "parent_id": await _parent(ctx, parent_id),
            "inherit_members": inherit_members,
            "tracker_ids": await _tracker_ids(ctx, tracker_ids),
            "enabled_module_names": enabled_module_names,
            "custom_fields": await _custom_fields(ctx, custom_values),
        }
    )
    return await _then_forget(ctx, await writing.create(ctx, PROJECT, payload))


@pack.tool(
    title="Update project",
    category="projects",
    tags=_WRITES,
    keywords=("rename a project, change its settings, public, private", "プロジェクトの設定 案件名を変える 公開"),
    # Not idempotent: after a rename, a second call by name could change another project.
    hints=Hints(destructive=True),
    examples=[Example("Describe it", {"id": "website", "description": "Our public site"}, shown_only=True)],
    output_schema=shapes.written("project"),
)
async def update_project(
    ctx: Context,
    id: _Project,
    name: _Title | None = None,
    description: _Long | None = None,
    homepage: _Homepage | None = None,
    is_public: _Public | None = None,
    parent_id: _Parent | None = None,
    inherit_members: _Inherits | None = None,
    tracker_ids: _Trackers | None = None,
    enabled_module_names: _Modules | None = None,
    custom_values: Annotated[CustomValues | None, Field(alias="custom_fields")] = None,
) -> dict[str, Any]:
    """Change a project, except its identifier. Reports what Redmine ignored."""
    payload = without_none(
        {
            "name": name,
            "description": description,
            "homepage": homepage,
            "is_public": is_public,
            "parent_id": await _parent(ctx, parent_id),
            "inherit_members": inherit_members,
            "tracker_ids": await _tracker_ids(ctx, tracker_ids),
            "enabled_module_names": enabled_module_names,
            "custom_fields": await _custom_fields(ctx, custom_values),
        }
    )
    if not payload:
        message = "Nothing to change: give at least one field besides id"
        raise InvalidArgumentsError(problems=[Problem("", message, "a field to change")])
    key = await lookups.project_key(ctx, id, "id")
    return await _then_forget(ctx, await writing.update(ctx, PROJECT, key, payload))


@pack.tool(
    title="Archive project",
    category="projects",
    tags=_WRITES,
    keywords=("put away, finished project, hide", "しまう 終わった案件 片付ける"),
    # Not idempotent: a second call by name could archive another project, as archived ones are not found by name.
    hints=Hints(destructive=True),
    examples=[Example("Archive it", {"id": "old-site"}, shown_only=True)],
    output_schema=shapes.written(),
)
async def archive_project(ctx: Context, id: _Project) -> dict[str, Any]:
    """Archive a project: hidden until it is unarchived. Redmine 5.0 or later."""
    return await _put_away(ctx, id, "archive")


@pack.tool(
    title="Unarchive project",
    category="projects",
    tags=_WRITES,
    keywords=("bring back, restore, put away earlier", "戻す 復活 しまっておいた案件"),
    hints=Hints(destructive=False, idempotent=True),
    examples=[Example("Restore it", {"id": "old-site"}, shown_only=True)],
    output_schema=shapes.written(),
)
async def unarchive_project(ctx: Context, id: _Project) -> dict[str, Any]:
    """Restore an archived project. Redmine 5.0 or later."""
    return await _put_away(ctx, id, "unarchive")


@pack.tool(
    title="Delete project",
    category="projects",
    tags=_WRITES,
    keywords=("wipe a project, remove with everything in it", "案件を消す 全部削除"),
    # Not idempotent: a second call by name could delete another project.
    hints=Hints(destructive=True),
    examples=[Example("Delete for good", {"id": "old-site"}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_project(ctx: Context, id: _Project) -> dict[str, Any]:
    """Delete a project for good, with subprojects, issues, wiki and files. Archiving can be undone."""
    return await _then_forget(ctx, await writing.delete(ctx, PROJECT, await lookups.project_key(ctx, id, "id")))


async def _put_away(ctx: Context, given_id: str, verb: str) -> dict[str, Any]:
    key = await lookups.project_key(ctx, given_id, "id")
    await identity.check(ctx)
    operation = f"{verb} project"
    async with reasons.with_reasons(ctx, operation, project=key):
        await ctx.http.put("projects", key, verb, operation=operation, resource="Project")
    return await _then_forget(ctx, writing.done(f"Project #{key} was successfully {verb}d."))


async def _then_forget(ctx: Context, answer: dict[str, Any]) -> dict[str, Any]:
    memory.forget(ctx)
    return answer


async def _parent(ctx: Context, parent: str | None) -> int | None:
    return await lookups.project_number(ctx, parent, "parent_id") if parent is not None else None


async def _custom_fields(ctx: Context, values: list[CustomValue] | None) -> list[dict[str, Any]] | None:
    return await custom_fields.to_send(ctx, values, "project", "") if values is not None else None


async def _tracker_ids(ctx: Context, trackers: list[str] | None) -> list[int] | None:
    """Ids of trackers, checked here: for an unknown one Redmine only says that something was not found."""
    if trackers is None:
        return None
    return [await lookups.id_of(ctx, lookups.TRACKER, one, "tracker_ids") for one in trackers]


async def _project(ctx: Context, key: str, include: str) -> Any:
    return await account.one(
        ctx, "projects", key, name="project", operation="get project", resource="Project", include=include
    )
