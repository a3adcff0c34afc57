"""Spent time. https://www.redmine.org/projects/redmine/wiki/Rest_TimeEntries"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, custom_fields, lookups, pack, shapes, writing
from tools_app.packs.redmine.arguments import (
    CustomValue,
    CustomValues,
    Day,
    Id,
    Limit,
    Name,
    Offset,
    is_id,
    without_none,
)
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

TIME_ENTRY: Final = writing.Noun("time_entry", "time_entries", "Time entry", shapes.TIME_ENTRY)
_TAGS: Final = ("redmine", "time")
_WRITES: Final = (*_TAGS, "write")

_Project = Annotated[Name, Field(description="Id, identifier or name.")]
_Entry = Annotated[Id, Field(description="Time entry number.")]
_Hours = Annotated[float, Field(gt=0, le=1000, description="In hours, like 1.5.")]
_Activity = Annotated[Name, Field(description="Id or name, from list_activities.")]
_Comments = Annotated[str, Field(max_length=255, description="What was done.")]
_Spent = Annotated[Day, Field(description="YYYY-MM-DD; default: today.")]


@pack.tool(
    title="List time entries",
    category="time entries",
    tags=_TAGS,
    keywords=(
        "timesheet, hours worked, who worked how long, booked, total",
        "工数の一覧 作業時間 何時間働いた 集計 勤務",
    ),
    hints=Hints(read_only=True),
    examples=[
        Example(
            "My time this week",
            {"user_id": "me", "from": "2026-11-16", "to": "2026-11-22"},
            {"time_entries": "<array>", "total_hours": "<number>"},
        )
    ],
    output_schema=shapes.page("time_entries", shapes.TIME_ENTRY, total_hours=shapes.NUMBER),
)
async def list_time_entries(
    ctx: Context,
    user_id: Annotated[Name | None, "me, id, or a name with project_id."] = None,
    project_id: _Project | None = None,
    issue_id: Annotated[Id | None, "Only time on this issue."] = None,
    spent_on: Annotated[Day | None, "Only this day: YYYY-MM-DD."] = None,
    from_: Annotated[Day | None, Field(alias="from"), "From this day: YYYY-MM-DD."] = None,
    to: Annotated[Day | None, "Up to this day: YYYY-MM-DD."] = None,
    limit: Limit = 25,
    offset: Offset = 0,
) -> dict[str, Any]:
    """List spent time, latest first. total_hours: sum of this page."""
    project = await lookups.project_key(ctx, project_id) if project_id is not None else None
    # Redmine resolves `me` itself.
    user = user_id if user_id in (None, "me") else await lookups.user_id(ctx, user_id, "user_id", project or "")
    params = {"user_id": user, "project_id": project, "issue_id": issue_id, "spent_on": spent_on}
    answer = await account.page(
        ctx,
        "time_entries",
        name="time_entries",
        shape=shapes.TIME_ENTRY,
        operation="list time entries",
        resource="Project",
        resource_id=project or "",
        params=without_none(params | {"from": from_, "to": to, "limit": limit, "offset": offset}),
    )
    hours = sum(entry.get("hours", 0) for entry in answer["time_entries"])
    return answer | {"total_hours": round(hours, 2)}


@pack.tool(
    title="Show time entry",
    category="time entries",
    tags=_TAGS,
    keywords=("one booking of hours", "工数の詳細"),
    hints=Hints(read_only=True),
    examples=[Example("One entry", {"id": 1}, shown_only=True)],
    output_schema=shapes.one("time_entry", shapes.TIME_ENTRY),
)
async def show_time_entry(ctx: Context, id: _Entry) -> dict[str, Any]:
    """Get a time entry."""
    entry = await account.one(
        ctx, "time_entries", id, name="time_entry", operation="get time entry", resource="Time entry"
    )
    return {"time_entry": TIME_ENTRY.shown(entry)}


@pack.tool(
    title="Create time entry",
    category="time entries",
    tags=_WRITES,
    keywords=(
        "log hours, book time, track minutes, overtime, worked, timesheet",
        "作業時間を付ける 工数を登録 残業 何分 何時間 記録",
    ),
    aliases=("create_time_entry_for_project", "create_time_entry_for_issue"),
    hints=Hints(destructive=False),
    examples=[
        Example(
            "An hour and a half on an issue",
            {"issue_id": 1, "hours": 1.5, "activity_id": "Development"},
            shown_only=True,
        )
    ],
    output_schema=shapes.written("time_entry"),
)
async def create_time_entry(
    ctx: Context,
    hours: _Hours,
    issue_id: Annotated[Id | None, "Its issue; this or project_id."] = None,
    project_id: _Project | None = None,
    activity_id: _Activity | None = None,
    spent_on: _Spent | None = None,
    comments: _Comments | None = None,
    user_id: Annotated[Name | None, "Whose time: me, id or member's name; default: own."] = None,
    custom_values: Annotated[CustomValues | None, Field(alias="custom_fields")] = None,
) -> dict[str, Any]:
    """Log time on either an issue or a project."""
    if (issue_id is None) is (project_id is None):
        message = "Give exactly one of issue_id and project_id"
        raise InvalidArgumentsError(problems=[Problem("", message, "issue_id or project_id")])
    # Redmine does not accept an identifier here.
    project: int | str = await lookups.project_number(ctx, project_id) if project_id is not None else ""
    place: int | str = project
    if issue_id is not None and any(value not in (None, "me") and not is_id(value) for value in (activity_id, user_id)):
        place = await _project_of_issue(ctx, issue_id)
    payload = {
        "issue_id": issue_id,
        "project_id": project or None,
        "hours": hours,
        "activity_id": await _activity(ctx, activity_id, place),
        "spent_on": spent_on,
        "comments": comments,
        "user_id": await lookups.user_id(ctx, user_id, "user_id", place) if user_id is not None else None,
        "custom_fields": await _custom_fields(ctx, custom_values),
    }
    return await writing.create(ctx, TIME_ENTRY, without_none(payload))


@pack.tool(
    title="Update time entry",
    category="time entries",
    tags=_WRITES,
    keywords=("correct booked hours, wrong booking, adjust", "工数を直す 作業時間の訂正 間違えた"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Correct the hours", {"id": 1, "hours": 0.5}, shown_only=True)],
    output_schema=shapes.written("time_entry"),
)
async def update_time_entry(
    ctx: Context,
    id: _Entry,
    issue_id: Annotated[Id | None, "Its issue."] = None,
    hours: _Hours | None = None,
    activity_id: _Activity | None = None,
    spent_on: Annotated[Day | None, "YYYY-MM-DD."] = None,
    comments: _Comments | None = None,
    custom_values: Annotated[CustomValues | None, Field(alias="custom_fields")] = None,
) -> dict[str, Any]:
    """Change a time entry. Reports what Redmine ignored."""
    place: int | str = ""
    if activity_id is not None and not is_id(activity_id):
        place = await (_project_of_issue(ctx, issue_id) if issue_id is not None else _project_of_entry(ctx, id))
    payload = without_none(
        {
            "issue_id": issue_id,
            "hours": hours,
            "activity_id": await _activity(ctx, activity_id, place),
            "spent_on": spent_on,
            "comments": comments,
            "custom_fields": await _custom_fields(ctx, custom_values),
        }
    )
    if not payload:
        message = "Nothing to change: give at least one field besides id"
        raise InvalidArgumentsError(problems=[Problem("", message, "a field to change")])
    return await writing.update(ctx, TIME_ENTRY, id, payload)


@pack.tool(
    title="Delete time entry",
    category="time entries",
    tags=_WRITES,
    keywords=(
        "take a booking out, remove booked hours, booked by mistake, wrong",
        "工数を取り消す 間違えて付けた 作業時間を消す",
    ),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Delete for good", {"id": 1}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_time_entry(ctx: Context, id: _Entry) -> dict[str, Any]:
    """Delete a time entry for good."""
    return await writing.delete(ctx, TIME_ENTRY, id)


async def _activity(ctx: Context, name: str | None, project: int | str) -> int | None:
    """The id of an activity; a project may have its own."""
    return await lookups.id_of(ctx, lookups.ACTIVITY, name, "activity_id", project) if name is not None else None


async def _custom_fields(ctx: Context, values: Sequence[CustomValue] | None) -> list[dict[str, Any]] | None:
    return await custom_fields.to_send(ctx, values, "time_entry", "") if values is not None else None


async def _project_of_issue(ctx: Context, number: int) -> int | str:
    issue = await account.one(ctx, "issues", number, name="issue", operation="get issue", resource="Issue")
    project: int | str = shapes.part_of(issue, "project").get("id", "")
    return project


async def _project_of_entry(ctx: Context, number: int) -> int | str:
    entry = await account.one(
        ctx, "time_entries", number, name="time_entry", operation="get time entry", resource="Time entry"
    )
    project: int | str = shapes.part_of(entry, "project").get("id", "")
    return project
