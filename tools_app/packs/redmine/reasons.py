"""Why Redmine refused a request or ignored a change.

It answers 403 without a reason for archived, closed and unknown objects as well as for missing permissions, and ignores
changes that its rules forbid. So the objects are read after a refusal.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypedDict, Unpack

from tools_app.packs.redmine import identity
from tools_app.packs.redmine.refusals import ROLES
from tools_app.packs.redmine.shapes import part_of, parts_of
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, NotFoundError, ToolError, UpstreamValidationError, shortened

CLOSED: Final = 5
ARCHIVED: Final = 9
_MOST_LISTED: Final = 5
_REOPEN: Final = "A closed project can only be read. A manager of the project can reopen it in Redmine."
_UNARCHIVE: Final = "An archived project cannot be used. An administrator of Redmine can restore it: unarchive_project."
_OR_ARCHIVED: Final = "The project may also be archived: Redmine then gives the same answer."
# Redmine computes these for issues with subtasks, unless configured otherwise.
_COMPUTED: Final = ("start_date", "due_date", "priority_id", "done_ratio")


class About(TypedDict, total=False):
    """The object of a request: one of these."""

    issue: str | int
    entry: str | int
    project: str | int


@asynccontextmanager
async def with_reasons(ctx: Context, operation: str, **about: Unpack[About]) -> AsyncIterator[None]:
    """Replaces a refusal by its reason.

    Raises:
        ToolError: the reason, or the original refusal if no reason is known.
    """
    try:
        yield
    except (ApiError, UpstreamValidationError) as refusal:
        reason = await _behind(ctx, refusal, operation, about)
        if reason is refusal:
            raise
        reason.detail = reason.detail or refusal.detail
        raise reason from refusal


async def _behind(ctx: Context, error: ToolError, operation: str, about: About) -> ToolError:
    if isinstance(error, ApiError) and error.context.get("statusCode") != 403:
        return error
    if isinstance(error, ApiError) and error.context["operation"] != operation:
        return error  # a refused key is another problem
    if isinstance(error, UpstreamValidationError) and not operation.startswith(("create", "copy")):
        return error
    try:
        match about:
            case {"issue": number}:
                return await _of_issue(ctx, error, operation, number)
            case {"entry": number}:
                return await _of_entry(ctx, error, operation, number)
            case {"project": key} if key:
                return await _of_project(ctx, error, operation, key)
    except ToolError as unknown:
        ctx.log.warning("Redmine does not say why it refuses to %s: %s", operation, unknown.message)
    return error


async def _of_issue(ctx: Context, error: ToolError, operation: str, number: str | int) -> ToolError:
    try:
        response = await ctx.http.get("issues", number, operation=operation, resource="Issue")
    except NotFoundError as missing:
        return missing
    except ApiError as hidden:
        if hidden.context.get("statusCode") != 403:
            raise
        if await identity.is_administrator(ctx):
            # They see all issues except those of archived projects and of projects without the issues module.
            reason = f"the project of issue #{number} is archived, or no longer uses issues"
            return _unusable(operation, reason, _UNARCHIVE)
        return error if operation == "get issue" else _hidden(operation, "a role that can see this issue")
    return await _of_project_in(ctx, error, operation, part_of(response, "issue"))


async def _of_entry(ctx: Context, error: ToolError, operation: str, number: str | int) -> ToolError:
    if operation == "get time entry":
        return error
    response = await ctx.http.get("time_entries", number, operation=operation, resource="Time entry")
    return await _of_project_in(ctx, error, operation, part_of(response, "time_entry"))


async def _of_project_in(ctx: Context, error: ToolError, operation: str, thing: Mapping[str, Any]) -> ToolError:
    project = part_of(thing, "project").get("id")
    return await _of_project(ctx, error, operation, project) if isinstance(project, int) else error


async def _of_project(ctx: Context, error: ToolError, operation: str, key: str | int) -> ToolError:
    project = await _project(ctx, key, operation)
    if isinstance(project, NotFoundError):
        return project
    if project.status == ARCHIVED:
        return _unusable(operation, f"project {project.name} is archived", _UNARCHIVE)
    if project.status == CLOSED and not operation.startswith(("get", "list", "search")):
        return _unusable(operation, f"project {project.name} is closed", _REOPEN)
    if not project.is_seen:
        refusal = error if isinstance(error, ApiError) else _hidden(operation, "a role in this project")
        refusal.next_step = f"{refusal.next_step} {_OR_ARCHIVED}"
        return refusal
    return error


@dataclass(frozen=True, slots=True)
class _Project:
    name: str
    status: int = 0
    is_seen: bool = True


async def _project(ctx: Context, key: str | int, operation: str) -> _Project | NotFoundError:
    name = f"#{shortened(str(key))}"
    try:
        project = part_of(await ctx.http.get("projects", key, operation=operation, resource="Project"), "project")
    except NotFoundError as missing:
        return missing
    except ApiError as hidden:
        if hidden.context.get("statusCode") != 403:
            raise
        # Administrators see all projects except archived ones.
        return _Project(name, ARCHIVED if await identity.is_administrator(ctx) else 0, is_seen=False)
    status = project.get("status")
    return _Project(f"“{shortened(str(project.get('name', key)))}”", status if isinstance(status, int) else 0)


def _unusable(operation: str, reason: str, next_step: str) -> UpstreamValidationError:
    return UpstreamValidationError(f"Failed to {operation}: {reason}", next_step=next_step)


def _hidden(operation: str, required: str) -> ApiError:
    return ApiError(
        f"Permission denied: requires {required}", context={"operation": operation, "statusCode": 403}, next_step=ROLES
    )


# ---- changes that Redmine ignores


async def ignored(ctx: Context, issue: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, str]:
    """Why Redmine ignored changes of an issue, by field, as far as known."""
    causes: dict[str, str] = {}
    try:
        if "project_id" in fields and (reason := await _no_target(ctx, fields["project_id"])):
            causes["project_id"] = reason
        if "status_id" in fields and (reason := await _no_transition(ctx, issue)):
            causes["status_id"] = reason
        if (computed := [field for field in _COMPUTED if field in fields]) and await _related(ctx, issue, "children"):
            reason = "Redmine computes it from the subtasks: change it there."
            causes |= dict.fromkeys(computed, reason)
    except ToolError as unknown:
        ctx.log.warning("Redmine does not say why it ignored a change: %s", unknown.message)
    return causes


async def _no_target(ctx: Context, key: str | int) -> str:
    project = await _project(ctx, key, "get project")
    if isinstance(project, NotFoundError) or project.status not in (CLOSED, ARCHIVED):
        return ""
    return f"Project {project.name} is {'closed' if project.status == CLOSED else 'archived'}."


async def _no_transition(ctx: Context, issue: Mapping[str, Any]) -> str:
    """Why an issue cannot be closed, or cannot be reopened."""
    allowed = [status.get("is_closed") is True for status in parts_of(issue, "allowed_statuses")]
    number, is_closed = issue.get("id"), part_of(issue, "status").get("is_closed") is True
    if is_closed:
        parent = part_of(issue, "parent").get("id")
        if parent is None or False in allowed:
            return ""
        above = part_of(await ctx.http.get("issues", parent, operation="get issue", resource="Issue"), "issue")
        if part_of(above, "status").get("is_closed") is not True:
            return ""
        return f"It cannot be reopened while its parent issue #{parent} is closed."
    if True in allowed:
        return ""
    if subtasks := await _open(ctx, {"parent_id": f"~{number}"}):
        return f"It cannot be closed while its subtasks are open: {_numbers(subtasks)}."
    relations = await _related(ctx, issue, "relations")
    blocking = [one["issue_id"] for one in relations if one.get("relation_type") == "blocks" and _is_to(one, number)]
    if blocking and (blockers := await _open(ctx, {"issue_id": ",".join(map(str, blocking[:100]))})):
        return f"It cannot be closed while issues that block it are open: {_numbers(blockers)}."
    return ""


def _is_to(relation: Mapping[str, Any], number: Any) -> bool:
    return relation.get("issue_to_id") == number and isinstance(relation.get("issue_id"), int)


async def _related(ctx: Context, issue: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    path = ("issues", str(issue.get("id", "")))
    response = await ctx.http.get(*path, operation="get issue", resource="Issue", params={"include": name})
    return parts_of(part_of(response, "issue"), name)


async def _open(ctx: Context, params: Mapping[str, Any]) -> list[int]:
    params = {**params, "status_id": "open", "limit": _MOST_LISTED + 1}
    response = await ctx.http.get("issues", operation="list issues", params=params)
    return [issue["id"] for issue in parts_of(response, "issues") if isinstance(issue.get("id"), int)]


def _numbers(issues: list[int]) -> str:
    numbers = ", ".join(f"#{number}" for number in issues[:_MOST_LISTED])
    return f"{numbers}, …" if len(issues) > _MOST_LISTED else numbers


# ---- side effects of a change

_NOTHING: Final[tuple[Any, ...]] = (None, "", [])
# Fields of an issue by the parameters that change them.
_KEPT: Final = {
    **{f"{name}_id": name for name in ("tracker", "status", "priority", "category", "fixed_version", "assigned_to")},
    "parent_issue_id": "parent",
}


def side_effects_of(before: Mapping[str, Any], after: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, str]:
    """Side effects of moving an issue or changing its tracker: by field, the old and the new value."""
    side_effects: dict[str, str] = {}
    for parameter, name in _KEPT.items():
        was, now = part_of(before, name), part_of(after, name)
        if was.get("id") not in (None, now.get("id")) and parameter not in payload:
            side_effects[parameter] = f"was {_name_of(was)}, {f'is now {_name_of(now)}' if now else 'is empty now'}."
    asked_fields = {str(field.get("id")) for field in parts_of(payload, "custom_fields")}
    values = {field.get("id"): field.get("value") for field in parts_of(after, "custom_fields")}
    for field in parts_of(before, "custom_fields"):
        old, new = field.get("value"), values.get(field.get("id"))
        if old in _NOTHING or old == new or str(field.get("id")) in asked_fields:
            continue
        name = shortened(str(field.get("name", field.get("id"))))
        side_effects[name] = f"was {_text(old)}, {f'is now {_text(new)}' if new not in _NOTHING else 'is gone'}."
    return side_effects


def _name_of(thing: Mapping[str, Any]) -> str:
    return shortened(str(thing.get("name", f"#{thing.get('id')}")))


def _text(value: Any) -> str:
    return shortened(", ".join(map(str, value)) if isinstance(value, list) else str(value))
