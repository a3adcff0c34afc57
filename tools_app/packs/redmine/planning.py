"""Versions and issue categories of a project.

https://www.redmine.org/projects/redmine/wiki/Rest_Versions
https://www.redmine.org/projects/redmine/wiki/Rest_IssueCategories
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tools_app.packs.redmine import account, custom_fields, lookups, memory, pack, shapes, writing
from tools_app.packs.redmine.arguments import CustomValue, CustomValues, Day, Id, Name, without_none
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

VERSION: Final = writing.Noun("version", "versions", "Version", shapes.VERSION)
CATEGORY: Final = writing.Noun("issue_category", "issue_categories", "Category", shapes.CATEGORY)
_WRITES: Final = ("redmine", "projects", "write")

_Project = Annotated[Name, Field(description="Id, identifier or name.")]
_Version = Annotated[Id, Field(description="Version id, from list_versions.")]
_Category = Annotated[Id, Field(description="Category id, from show_project with include=issue_categories.")]
_VersionName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"\S", description="Unique in its project.")]
_CategoryName = Annotated[str, Field(min_length=1, max_length=60, pattern=r"\S", description="Unique in its project.")]
_Status = Annotated[
    Literal["open", "locked", "closed"], Field(description="locked takes no more issues, closed is finished.")
]
_Sharing = Annotated[
    Literal["none", "descendants", "hierarchy", "tree", "system"], Field(description="Which projects can use it.")
]
_DueDate = Annotated[Day, Field(description="YYYY-MM-DD.")]
_About = Annotated[str, Field(max_length=255, description="What it is about.")]
_WikiTitle = Annotated[str, Field(max_length=255, description="Wiki page about it.")]
_Assignee = Annotated[Name, Field(description="Who gets its new issues: me, or id or name of a member.")]


@pack.tool(
    title="Create version",
    category="projects",
    tags=_WRITES,
    keywords=("new milestone, plan a release, sprint, roadmap", "マイルストーンを作る リリースを計画 スプリント"),
    hints=Hints(destructive=False),
    examples=[
        Example("A release", {"project_id": "website", "name": "2.0", "due_date": "2026-12-31"}, shown_only=True)
    ],
    output_schema=shapes.written("version"),
)
async def create_version(
    ctx: Context,
    project_id: _Project,
    name: _VersionName,
    status: _Status = "open",
    due_date: _DueDate | None = None,
    description: _About | None = None,
    sharing: _Sharing = "none",
    wiki_page_title: _WikiTitle | None = None,
    custom_values: Annotated[CustomValues | None, Field(alias="custom_fields")] = None,
) -> dict[str, Any]:
    """Create a version (milestone). Reports what Redmine ignored."""
    project = await lookups.project_key(ctx, project_id)
    payload = {
        "name": name,
        "status": status,
        "due_date": due_date,
        "description": description,
        "sharing": sharing,
        "wiki_page_title": wiki_page_title,
        "custom_fields": await _custom_fields(ctx, custom_values, project),
    }
    made = await writing.create(ctx, VERSION, without_none(payload), below=("projects", project))
    return _then_forget(ctx, made)


@pack.tool(
    title="Update version",
    category="projects",
    tags=_WRITES,
    keywords=("close a milestone, release is done, reopen, postpone, rename", "リリース完了 バージョンを閉じる 延期"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Close it", {"id": 1, "status": "closed"}, shown_only=True)],
    output_schema=shapes.written("version"),
)
async def update_version(
    ctx: Context,
    id: _Version,
    name: _VersionName | None = None,
    status: _Status | None = None,
    due_date: _DueDate | None = None,
    description: _About | None = None,
    sharing: _Sharing | None = None,
    wiki_page_title: _WikiTitle | None = None,
    custom_values: Annotated[CustomValues | None, Field(alias="custom_fields")] = None,
    clear: Annotated[
        list[Literal["due_date", "description", "wiki_page_title"]] | None, Field(min_length=1), "Fields to empty."
    ] = None,
) -> dict[str, Any]:
    """Change or close a version. Reports what Redmine ignored."""
    project: int | str = ""
    if custom_values:
        version = await account.one(ctx, "versions", id, name="version", operation="get version", resource="Version")
        project = shapes.part_of(version, "project").get("id", "")
    payload = without_none(
        {
            "name": name,
            "status": status,
            "due_date": due_date,
            "description": description,
            "sharing": sharing,
            "wiki_page_title": wiki_page_title,
            "custom_fields": await _custom_fields(ctx, custom_values, project),
        }
    ) | dict.fromkeys(clear or (), "")
    _check_changes(payload)
    return _then_forget(ctx, await writing.update(ctx, VERSION, id, payload))


@pack.tool(
    title="Delete version",
    category="projects",
    tags=_WRITES,
    keywords=("remove a milestone, cancel a release", "バージョンを消す リリース中止"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Delete for good", {"id": 1}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_version(ctx: Context, id: _Version) -> dict[str, Any]:
    """Delete a version that no issue has. Closing it keeps it (update_version)."""
    return _then_forget(ctx, await writing.delete(ctx, VERSION, id))


@pack.tool(
    title="Create category",
    category="projects",
    tags=_WRITES,
    keywords=("component, area, topic of tickets, responsible person", "カテゴリを作る 分野 担当領域"),
    hints=Hints(destructive=False),
    examples=[Example("An area", {"project_id": "website", "name": "Checkout"}, shown_only=True)],
    output_schema=shapes.written("issue_category"),
)
async def create_issue_category(
    ctx: Context, project_id: _Project, name: _CategoryName, assigned_to_id: _Assignee | None = None
) -> dict[str, Any]:
    """Create a category for issues of a project."""
    project = await lookups.project_key(ctx, project_id)
    payload: dict[str, Any] = {"name": name}
    if assigned_to_id is not None:
        payload["assigned_to_id"] = await lookups.user_id(ctx, assigned_to_id, "assigned_to_id", project)
    return _then_forget(ctx, await writing.create(ctx, CATEGORY, payload, below=("projects", project)))


@pack.tool(
    title="Update category",
    category="projects",
    tags=_WRITES,
    keywords=("rename a component, other responsible person", "カテゴリ名を変える 担当を変える"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Rename it", {"id": 1, "name": "Payment"}, shown_only=True)],
    output_schema=shapes.written("issue_category"),
)
async def update_issue_category(
    ctx: Context,
    id: _Category,
    name: _CategoryName | None = None,
    assigned_to_id: _Assignee | None = None,
    clear: Annotated[list[Literal["assigned_to_id"]] | None, Field(min_length=1), "Fields to empty."] = None,
) -> dict[str, Any]:
    """Change a category of issues."""
    payload: dict[str, Any] = without_none({"name": name}) | dict.fromkeys(clear or (), "")
    if assigned_to_id is not None:
        category = await account.one(
            ctx, "issue_categories", id, name="issue_category", operation="get category", resource="Category"
        )
        project = shapes.part_of(category, "project").get("id", "")
        payload["assigned_to_id"] = await lookups.user_id(ctx, assigned_to_id, "assigned_to_id", project)
    _check_changes(payload)
    return _then_forget(ctx, await writing.update(ctx, CATEGORY, id, payload))


@pack.tool(
    title="Delete category",
    category="projects",
    tags=_WRITES,
    keywords=("remove a component, merge categories", "カテゴリを消す 統合"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Merge it into another", {"id": 1, "reassign_to_id": 2}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_issue_category(
    ctx: Context, id: _Category, reassign_to_id: Annotated[Id | None, "Category that its issues get."] = None
) -> dict[str, Any]:
    """Delete a category; its issues get another one, or none."""
    if reassign_to_id is not None:
        # Redmine deletes it all the same if there is no such category, and the issues lose theirs.
        await _check_same_project(ctx, id, reassign_to_id)
    deleted = await writing.delete(ctx, CATEGORY, id, params=without_none({"reassign_to_id": reassign_to_id}))
    return _then_forget(ctx, deleted)


async def _check_same_project(ctx: Context, *ids: int) -> None:
    projects = []
    for number in ids:
        category = await account.one(
            ctx, "issue_categories", number, name="issue_category", operation="get category", resource="Category"
        )
        projects.append(shapes.part_of(category, "project").get("id"))
    if len(set(projects)) > 1 or len(set(ids)) == 1:
        message = "reassign_to_id must be another category of the same project"
        raise InvalidArgumentsError(problems=[Problem("/reassign_to_id", message, "another category of the project")])


async def _custom_fields(
    ctx: Context, values: list[CustomValue] | None, project: int | str
) -> list[dict[str, Any]] | None:
    return await custom_fields.to_send(ctx, values, "version", project) if values is not None else None


def _check_changes(payload: dict[str, Any]) -> None:
    if not payload:
        message = "Nothing to change: give at least one field besides id"
        raise InvalidArgumentsError(problems=[Problem("", message, "a field to change")])


def _then_forget(ctx: Context, answer: dict[str, Any]) -> dict[str, Any]:
    memory.forget(ctx)
    return answer
