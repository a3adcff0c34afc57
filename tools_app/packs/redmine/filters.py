"""Filters of issues.

Redmine silently ignores unknown filters and sort columns, and returns the wrong issues. So columns are checked before
the request. Custom fields, which only administrators can list, are checked by the response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tools_app.packs.redmine import account, custom_fields, lookups
from tools_app.packs.redmine.arguments import (
    CustomValue,
    CustomValues,
    DateFilter,
    Id,
    IssuesInclude,
    Limit,
    Name,
    Offset,
    is_id,
    without_none,
)
from tools_app.packs.redmine.memory import cached_answer
from tools_app.sdk.checker import invalid, rejected
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.signatures import OrNumber

_SORT: Final = r"^[a-z_.]+[0-9]*(:(asc|desc))?(,[a-z_.]+[0-9]*(:(asc|desc))?)*$"
_COLUMNS: Final = (
    *("id", "project", "tracker", "status", "priority", "subject", "author", "assigned_to", "parent", "category"),
    *("fixed_version", "start_date", "due_date", "done_ratio", "estimated_hours", "total_estimated_hours"),
    *("spent_hours", "total_spent_hours", "is_private", "created_on", "updated_on", "closed_on", "last_updated_by"),
)
_CUSTOM_COLUMN: Final = re.compile(r"((project|author|assigned_to|fixed_version)\.)?cf_[1-9][0-9]{0,8}")
_CUSTOM: Final = "cf_"
_SECONDS: Final = 60.0


def _known_columns(text: str) -> str:
    names = [part.partition(":")[0] for part in text.split(",")]
    if wrong := [name for name in names if name not in _COLUMNS and not _CUSTOM_COLUMN.fullmatch(name)]:
        raise ValueError(f"{wrong[0][:50]!r} is not one of {', '.join(_COLUMNS)}, or cf_ and the id of a custom field")
    return text


Sort = Annotated[str, Field(pattern=_SORT, max_length=200), AfterValidator(_known_columns)]


class Selection(BaseModel):
    """Filters of issues. The filter of a custom field is named `cf_` and its id."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "additionalProperties": False,
            "patternProperties": {
                "^cf_[1-9][0-9]{0,8}$": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 255,
                    "description": "Custom field value, or ~ and a part of it.",
                }
            },
        },
    )

    project_id: Name | None = Field(None, description="Id, identifier or name.")
    subproject_id: Annotated[str, OrNumber()] | None = Field(
        None, pattern=r"^(!\*|[0-9]{1,9})$", description="!* excludes subprojects."
    )
    status_id: Name | None = Field(None, description="open (default without issue_id), closed, *, id or name.")
    tracker_id: Name | None = Field(None, description="Id or name.")
    priority_id: Name | None = Field(None, description="Id or name.")
    assigned_to_id: Name | None = Field(None, description="me, id, !* (unassigned), or a name with project_id.")
    author_id: Name | None = Field(None, description="me, id, or a name with project_id.")
    fixed_version_id: Name | None = Field(None, description="Id, or a name with project_id.")
    parent_id: Id | None = Field(None, description="Subtasks of this issue.")
    issue_id: Annotated[str, OrNumber()] | None = Field(
        None, pattern=r"^[0-9]+(,[0-9]+)*$", max_length=1000, description="Comma-separated ids."
    )
    created_on: DateFilter | None = Field(None, description="2026-01-31, >=…, <=… or ><2026-01-01|2026-01-31.")
    updated_on: DateFilter | None = Field(None, description="As created_on.")
    custom_fields: CustomValues | None = Field(None, description="By name or id. null: empty; ~ before a part of it.")
    query_id: Name | None = Field(None, description="Saved query, id or name, instead of filters.")


class Filters(Selection):
    """Arguments of list_issues."""

    sort: Sort | None = Field(None, description="Like priority:desc,updated_on.")
    include: IssuesInclude | None = None
    limit: Limit = 25
    offset: Offset = 0


async def resolve(ctx: Context, filters: Selection) -> dict[str, Any]:
    """The filters as Redmine's parameters, with ids instead of names.

    Raises:
        InvalidArgumentsError: a name is unknown or ambiguous.
    """
    params = without_none(filters.model_dump(exclude={"custom_fields"}))
    if filters.project_id is not None:
        params["project_id"] = await lookups.project_key(ctx, filters.project_id)
    if filters.query_id is not None:
        _check_alone(params, filters)
        params["query_id"] = await lookups.id_of(ctx, lookups.QUERY, filters.query_id, "query_id")
        return params
    if filters.issue_id is not None:
        # Explicit ids are meant regardless of their status.
        params.setdefault("status_id", "*")
    project = params.get("project_id", "")
    for name, kind, special in _NAMED:
        value = params.get(name)
        if value is None or value in special:
            continue
        if kind in _OF_A_PROJECT and not project and not is_id(value):
            expected = ", ".join([*special, "an id", "or a name together with project_id"])
            raise InvalidArgumentsError(problems=[invalid([name], expected)])
        params[name] = await lookups.id_of(ctx, kind, value, name, project)
    return params | await _by_custom_fields(ctx, filters.custom_fields or (), project)


def _check_alone(params: Mapping[str, Any], filters: Selection) -> None:
    """Check that no filter is given with a saved query, as Redmine would ignore it.

    Raises:
        InvalidArgumentsError
    """
    others = [name for name in params if name not in _BESIDE_A_QUERY]
    if others or filters.custom_fields:
        name = others[0] if others else "custom_fields"
        reason = "Redmine ignores filters beside a saved query"
        raise InvalidArgumentsError(problems=[rejected([name], reason, "query_id or filters")])


async def _by_custom_fields(ctx: Context, values: Sequence[CustomValue], project: int | str) -> dict[str, str]:
    """Filters by custom fields, as Redmine calls them."""
    params: dict[str, str] = {}
    for field in await custom_fields.to_send(ctx, values, "issue", project) if values else ():
        value = field["value"]
        text = "|".join(map(str, value)) if isinstance(value, list) else value
        params[f"{_CUSTOM}{field['id']}"] = text or "!*"
    return params


def about(params: Mapping[str, Any]) -> dict[str, Any]:
    """What a list of issues is not found by, if it is not found."""
    if "query_id" in params:
        return {"resource": "Query", "resource_id": str(params["query_id"])}
    return {"resource": "Project", "resource_id": str(params.get("project_id", ""))}


_BESIDE_A_QUERY: Final = ("query_id", "project_id", "sort", "include", "limit", "offset", "group_by")
_OF_A_PROJECT: Final = (lookups.MEMBER, lookups.VERSION)
_NAMED: Final = (
    ("status_id", lookups.STATUS, ("open", "closed", "*")),
    ("tracker_id", lookups.TRACKER, ()),
    ("priority_id", lookups.PRIORITY, ()),
    ("assigned_to_id", lookups.MEMBER, ("me", "!*", "*")),
    ("author_id", lookups.MEMBER, ("me",)),
    ("fixed_version_id", lookups.VERSION, ("!*", "*")),
)


async def check_used(ctx: Context, params: Mapping[str, Any], issues: Sequence[Mapping[str, Any]]) -> None:
    """Check that Redmine applied the filters by custom fields.

    Raises:
        InvalidArgumentsError: it ignored one.
    """
    project = params.get("project_id", "")
    for name in params:
        # An empty result cannot contain wrong issues.
        if not name.startswith(_CUSTOM) or not issues:
            continue

        async def fetch(name: str = name) -> bool:
            return await _filters_by(ctx, name, issues[0])

        if not await cached_answer(ctx, f"filter {name} {project}", _SECONDS, fetch):
            expected = "a custom field that issues here can be filtered by; list_custom_fields says is_filter"
            reason = "Redmine ignores it, as there is no such custom field here, or it is not used as a filter"
            raise InvalidArgumentsError(problems=[rejected([name], reason, expected)])


async def _filters_by(ctx: Context, name: str, issue: Mapping[str, Any]) -> bool:
    """Whether Redmine filters by a custom field: tested with a filter that cannot match a known issue."""
    values = {field.get("id"): field.get("value") for field in issue.get("custom_fields") or ()}
    impossible = "!*" if values.get(int(name.removeprefix(_CUSTOM))) else "*"
    issues, _ = await account.many(
        ctx,
        "issues",
        name="issues",
        operation="list issues",
        params={"issue_id": issue.get("id"), "status_id": "*", name: impossible, "limit": 1},
    )
    return not issues
