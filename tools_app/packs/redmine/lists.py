"""What issues and spent time are made of: trackers, statuses, priorities, activities, custom fields, versions."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, custom_fields, lookups, pack, shapes
from tools_app.packs.redmine.arguments import Id, Name
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.schemas import Schema
from tools_app.sdk.tool import Hints

_TAGS: Final = ("redmine", "lists")
_READS: Final = Hints(read_only=True)
_Project = Annotated[Name, Field(description="Id, identifier or name.")]


def _listed(name: str, shape: Schema, **more: Schema) -> dict[str, Any]:
    return {"tags": _TAGS, "category": "lists", "hints": _READS, "output_schema": shapes.page(name, shape, **more)}


@pack.tool(
    keywords=("kinds of tickets, bug, feature, support", "チケットの種類 種別"),
    title="List trackers",
    examples=[
        Example("What issues can be", expected_result={"trackers": [{"id": "<integer>", "name": "<string>"}, "<more>"]})
    ],
    **_listed("trackers", shapes.TRACKER),
)
async def list_trackers(ctx: Context) -> dict[str, Any]:
    """List the trackers, like Bug or Feature: what an issue can be."""
    return await account.page(ctx, "trackers", name="trackers", shape=shapes.TRACKER, operation="list trackers")


@pack.tool(
    keywords=("states of a ticket, open, closed, in progress", "ステータスの種類 状態 進行中 完了"),
    title="List issue statuses",
    examples=[
        Example(
            "What an issue can go through",
            expected_result={"issue_statuses": [{"id": "<integer>", "is_closed": "<boolean>"}, "<more>"]},
        )
    ],
    **_listed("issue_statuses", shapes.STATUS),
)
async def list_issue_statuses(ctx: Context) -> dict[str, Any]:
    """List the statuses of issues, and which of them count as closed."""
    return await account.page(
        ctx, "issue_statuses", name="issue_statuses", shape=shapes.STATUS, operation="list statuses"
    )


@pack.tool(
    keywords=("urgency, how urgent, importance, severity, levels", "緊急度 重要度 優先順位 段階"),
    title="List priorities",
    examples=[
        Example(
            "How urgent an issue can be",
            expected_result={"issue_priorities": [{"id": "<integer>", "name": "<string>"}, "<more>"]},
        )
    ],
    **_listed("issue_priorities", shapes.ENUMERATED),
)
async def list_priorities(ctx: Context) -> dict[str, Any]:
    """List the priorities of issues, the lowest first."""
    return await account.page(
        ctx,
        *("enumerations", "issue_priorities"),
        name="issue_priorities",
        shape=shapes.ENUMERATED,
        operation="list priorities",
    )


@pack.tool(
    keywords=("kinds of work, what hours are booked on, timesheet categories", "作業分類 作業の種類 工数の分類"),
    title="List activities",
    examples=[Example("What time can be spent on", {"project_id": "website"}, shown_only=True)],
    **_listed("time_entry_activities", shapes.ENUMERATED),
)
async def list_activities(ctx: Context, project_id: _Project | None = None) -> dict[str, Any]:
    """List the activities that time is logged as; a project may have its own."""
    operation = "list activities"
    if project_id is None:
        path, name = ("enumerations", "time_entry_activities"), "time_entry_activities"
        return await account.page(ctx, *path, name=name, shape=shapes.ENUMERATED, operation=operation)
    key = await lookups.project_key(ctx, project_id)
    project = await account.one(
        ctx,
        *("projects", key),
        name="project",
        operation=operation,
        resource="Project",
        include="time_entry_activities",
    )
    found = shapes.shown(shapes.many(shapes.ENUMERATED), project.get("time_entry_activities")) or []
    return {"time_entry_activities": found, "total_count": len(found)}


@pack.tool(
    keywords=(
        "milestones, releases, what is planned, roadmap, next release",
        "リリース マイルストーン 次のリリース 予定 ロードマップ",
    ),
    title="List versions",
    examples=[Example("The versions of a project", {"project_id": "website"}, shown_only=True)],
    **_listed("versions", shapes.VERSION),
)
async def list_versions(ctx: Context, project_id: _Project) -> dict[str, Any]:
    """List the versions (milestones) of a project, those that others share with it included."""
    key = await lookups.project_key(ctx, project_id)
    return await account.page(
        ctx,
        *("projects", key, "versions"),
        name="versions",
        shape=shapes.VERSION,
        operation="list versions",
        resource="Project",
    )


@pack.tool(
    keywords=("extra fields, own fields, possible values", "独自の項目 追加項目 選べる値"),
    title="List custom fields",
    examples=[
        Example("All of them", shown_only=True),
        Example("Those that issues of a project can have", {"project_id": "website"}, shown_only=True),
    ],
    **_listed("custom_fields", shapes.CUSTOM_FIELD, complete=shapes.FLAG, message=shapes.TEXT),
)
async def list_custom_fields(
    ctx: Context, project_id: Annotated[Name | None, "Only those that issues of this project can have."] = None
) -> dict[str, Any]:
    """List custom fields with their ids, possible values, and whether issues can be filtered by them.
    Give project_id to create or change issues there. `complete` says whether any may be missing, `message` why."""
    if project_id is None:
        found = await custom_fields.of_everything(ctx)
    else:
        found = await custom_fields.of_project(ctx, await lookups.project_key(ctx, project_id))
    counts = {"total_count": len(found.fields), "complete": found.is_complete}
    return {"custom_fields": found.fields, **counts} | ({"message": found.message} if found.message else {})


@pack.tool(
    title="List project statuses",
    category="projects",
    tags=("redmine", "projects"),
    keywords=("states a ticket can be put into, next state", "選べるステータス 次の状態"),
    hints=_READS,
    examples=[Example("Where a bug can go next", {"project_id": "website", "tracker_id": "Bug"}, shown_only=True)],
    output_schema=shapes.page("statuses", shapes.STATUS, message=shapes.TEXT),
)
async def list_project_statuses(
    ctx: Context, project_id: _Project, tracker_id: Annotated[Name, "Id or name, like Bug."]
) -> dict[str, Any]:
    """List the statuses that an issue of this tracker can be given in a project, seen from its latest issue."""
    project = await lookups.project_key(ctx, project_id)
    tracker = await lookups.id_of(ctx, lookups.TRACKER, tracker_id, "tracker_id")
    operation = "list project statuses"
    # An issue of a subproject may have other statuses, as roles differ there.
    params = {"project_id": project, "subproject_id": "!*", "tracker_id": tracker, "status_id": "*", "limit": 1}
    found, _ = await account.many(ctx, "issues", name="issues", operation=operation, params=params)
    if not found:
        message = "There is no issue of this tracker in the project yet, from which its statuses could be seen."
        return {"statuses": [], "total_count": 0, "message": message}
    issue: Id = found[0].get("id", 0)
    read = await account.one(
        ctx, "issues", issue, name="issue", operation=operation, resource="Issue", include="allowed_statuses"
    )
    statuses = shapes.shown(shapes.many(shapes.STATUS), read.get("allowed_statuses")) or []
    status = shapes.part_of(read, "status").get("name", "in an unknown status")
    message = f"Seen from issue #{issue}, which is {status}."
    if "allowed_statuses" not in read:
        message = "This Redmine does not say what an issue can become: it takes 5.0. list_issue_statuses has them all."
    return {"statuses": statuses, "total_count": len(statuses), "message": message}
