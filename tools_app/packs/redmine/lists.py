"""Lists of possible values: trackers, statuses, priorities, activities, custom fields, versions."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, custom_fields, lookups, pack, shapes
from tools_app.packs.redmine.arguments import Id, Limit, Name, Offset
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.schemas import Schema

_TAGS: Final = ("redmine", "lists")
_READS: Final = Hints(read_only=True)
_Project = Annotated[Name, Field(description="Id, identifier or name.")]


def _list_options(name: str, shape: Schema, **more: Schema) -> dict[str, Any]:
    return {"tags": _TAGS, "category": "lists", "hints": _READS, "output_schema": shapes.page(name, shape, **more)}


@pack.tool(
    keywords=("kinds of tickets, bug, feature, support", "チケットの種類 種別"),
    title="List trackers",
    examples=[
        Example("All trackers", expected_result={"trackers": [{"id": "<integer>", "name": "<string>"}, "<more>"]})
    ],
    **_list_options("trackers", shapes.TRACKER),
)
async def list_trackers(ctx: Context) -> dict[str, Any]:
    """List the trackers (types of issues), like Bug or Feature."""
    return await account.page(ctx, "trackers", name="trackers", shape=shapes.TRACKER, operation="list trackers")


@pack.tool(
    keywords=("states of a ticket, open, closed, in progress", "ステータスの種類 状態 進行中 完了"),
    title="List issue statuses",
    examples=[
        Example(
            "All statuses",
            expected_result={"issue_statuses": [{"id": "<integer>", "is_closed": "<boolean>"}, "<more>"]},
        )
    ],
    **_list_options("issue_statuses", shapes.STATUS),
)
async def list_issue_statuses(ctx: Context) -> dict[str, Any]:
    """List the statuses of issues, and which count as closed."""
    return await account.page(
        ctx, "issue_statuses", name="issue_statuses", shape=shapes.STATUS, operation="list statuses"
    )


@pack.tool(
    keywords=("urgency, how urgent, importance, severity, levels", "緊急度 重要度 優先順位 段階"),
    title="List priorities",
    examples=[
        Example(
            "All priorities", expected_result={"issue_priorities": [{"id": "<integer>", "name": "<string>"}, "<more>"]}
        )
    ],
    **_list_options("issue_priorities", shapes.ENUMERATED),
)
async def list_priorities(ctx: Context) -> dict[str, Any]:
    """List the priorities of issues, lowest first."""
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
    examples=[Example("Activities of a project", {"project_id": "website"}, shown_only=True)],
    **_list_options("time_entry_activities", shapes.ENUMERATED),
)
async def list_activities(ctx: Context, project_id: _Project | None = None) -> dict[str, Any]:
    """List activities for time entries; a project may have its own."""
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
    activities = shapes.shown(shapes.many(shapes.ENUMERATED), project.get("time_entry_activities")) or []
    return {"time_entry_activities": activities, "total_count": len(activities)}


@pack.tool(
    keywords=(
        "milestones, releases, what is planned, roadmap, next release",
        "リリース マイルストーン 次のリリース 予定 ロードマップ",
    ),
    title="List versions",
    examples=[Example("The versions of a project", {"project_id": "website"}, shown_only=True)],
    **_list_options("versions", shapes.VERSION),
)
async def list_versions(ctx: Context, project_id: _Project) -> dict[str, Any]:
    """List the versions (milestones) of a project, including shared ones."""
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
    keywords=("saved filters, views, reports that people have stored", "保存した検索 カスタムクエリ よく使う絞り込み"),
    title="List queries",
    examples=[Example("All of them", expected_result={"queries": "<array>", "total_count": "<integer>"})],
    **_list_options("queries", shapes.QUERY),
)
async def list_queries(ctx: Context, limit: Limit = 100, offset: Offset = 0) -> dict[str, Any]:
    """List saved queries, for query_id of list_issues; those with a project_id together with it."""
    params = {"limit": limit, "offset": offset}
    return await account.page(
        ctx, "queries", name="queries", shape=shapes.QUERY, operation="list queries", params=params
    )


@pack.tool(
    keywords=("extra fields, own fields, possible values", "独自の項目 追加項目 選べる値"),
    title="List custom fields",
    examples=[
        Example("All of them", shown_only=True),
        Example("Those of issues in a project", {"project_id": "website"}, shown_only=True),
    ],
    **_list_options("custom_fields", shapes.CUSTOM_FIELD, complete=shapes.FLAG, message=shapes.TEXT),
)
async def list_custom_fields(
    ctx: Context, project_id: Annotated[Name | None, "Only those of issues in this project."] = None
) -> dict[str, Any]:
    """List custom fields: ids, possible values, and if issues can be filtered by them.
    For issues of a project give project_id. `complete` is false if some may be missing."""
    if project_id is None:
        field_list = await custom_fields.of_everything(ctx)
    else:
        field_list = await custom_fields.of_project(ctx, await lookups.project_key(ctx, project_id))
    counts = {"total_count": len(field_list.fields), "complete": field_list.is_complete}
    return {"custom_fields": field_list.fields, **counts} | (
        {"message": field_list.message} if field_list.message else {}
    )


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
    """List the statuses that a tracker's issues can get in a project, from its latest issue."""
    project = await lookups.project_key(ctx, project_id)
    tracker = await lookups.id_of(ctx, lookups.TRACKER, tracker_id, "tracker_id")
    operation = "list project statuses"
    # An issue of a subproject may have other statuses, as roles differ there.
    params = {"project_id": project, "subproject_id": "!*", "tracker_id": tracker, "status_id": "*", "limit": 1}
    issues, _ = await account.many(ctx, "issues", name="issues", operation=operation, params=params)
    if not issues:
        message = "The project has no issue of this tracker yet, from which its statuses could be read."
        return {"statuses": [], "total_count": 0, "message": message}
    issue: Id = issues[0].get("id", 0)
    issue_with_statuses = await account.one(
        ctx, "issues", issue, name="issue", operation=operation, resource="Issue", include="allowed_statuses"
    )
    statuses = shapes.shown(shapes.many(shapes.STATUS), issue_with_statuses.get("allowed_statuses")) or []
    status = shapes.part_of(issue_with_statuses, "status").get("name", "unknown")
    message = f"Based on issue #{issue}, whose status is {status}."
    if "allowed_statuses" not in issue_with_statuses:
        message = "This Redmine, before 5.0, does not list possible statuses. list_issue_statuses has all."
    return {"statuses": statuses, "total_count": len(statuses), "message": message}
