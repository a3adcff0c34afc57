"""Why Redmine said no. To what is archived, closed or not there it answers 403 and nothing else, as to a user who lacks
a permission; and a change that its rules do not allow it ignores. So it is asked what is there, once it has refused.
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
_MOST_TOLD: Final = 5
_REOPEN: Final = "A closed project can only be read. A manager of the project can reopen it in Redmine."
_UNARCHIVE: Final = (
    "An archived project cannot be used. An administrator of Redmine can bring it back: unarchive_project."
)
_OR_ARCHIVED: Final = "Redmine says the same of a project that is archived."
# Redmine computes these of an issue with subtasks, unless its administrators have decided otherwise.
_COMPUTED: Final = ("start_date", "due_date", "priority_id", "done_ratio")


class About(TypedDict, total=False):
    """What a request was about: one of these."""

    issue: str | int
    entry: str | int
    project: str | int


@asynccontextmanager
async def explained(ctx: Context, operation: str, **about: Unpack[About]) -> AsyncIterator[None]:
    """Makes of a refusal within what Redmine tells of it when it is asked.

    Raises:
        ToolError: what is behind the refusal; the refusal itself, where nothing is known.
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
        return error  # that the key is not accepted is another matter
    if isinstance(error, UpstreamValidationError) and not operation.startswith("create"):
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
        found = await ctx.http.get("issues", number, operation=operation, resource="Issue")
    except NotFoundError as missing:
        return missing
    except ApiError as hidden:
        if hidden.context.get("statusCode") != 403:
            raise
        if await identity.is_administrator(ctx):
            # They see every issue, but those of archived projects, and of projects without issues.
            why = f"the project of issue #{number} is archived, or does not use issues any more"
            return _unusable(operation, why, _UNARCHIVE)
        return error if operation == "get issue" else _hidden(operation, "a role that can see this issue")
    return await _of_project_in(ctx, error, operation, part_of(found, "issue"))


async def _of_entry(ctx: Context, error: ToolError, operation: str, number: str | int) -> ToolError:
    if operation == "get time entry":
        return error
    found = await ctx.http.get("time_entries", number, operation=operation, resource="Time entry")
    return await _of_project_in(ctx, error, operation, part_of(found, "time_entry"))


async def _of_project_in(ctx: Context, error: ToolError, operation: str, thing: Mapping[str, Any]) -> ToolError:
    project = part_of(thing, "project").get("id")
    return await _of_project(ctx, error, operation, project) if isinstance(project, int) else error


async def _of_project(ctx: Context, error: ToolError, operation: str, key: str | int) -> ToolError:
    found = await _project(ctx, key, operation)
    if isinstance(found, NotFoundError):
        return found
    if found.status == ARCHIVED:
        return _unusable(operation, f"project {found.name} is archived", _UNARCHIVE)
    if found.status == CLOSED and not operation.startswith(("get", "list", "search")):
        return _unusable(operation, f"project {found.name} is closed", _REOPEN)
    if not found.is_seen:
        told = error if isinstance(error, ApiError) else _hidden(operation, "a role in this project")
        told.next_step = f"{told.next_step} {_OR_ARCHIVED}"
        return told
    return error


@dataclass(frozen=True, slots=True)
class _Project:
    name: str
    status: int = 0
    is_seen: bool = True


async def _project(ctx: Context, key: str | int, operation: str) -> _Project | NotFoundError:
    name = f"#{shortened(str(key))}"
    try:
        found = part_of(await ctx.http.get("projects", key, operation=operation, resource="Project"), "project")
    except NotFoundError as missing:
        return missing
    except ApiError as hidden:
        if hidden.context.get("statusCode") != 403:
            raise
        # Administrators see every project, but archived ones.
        return _Project(name, ARCHIVED if await identity.is_administrator(ctx) else 0, is_seen=False)
    status = found.get("status")
    return _Project(f"“{shortened(str(found.get('name', key)))}”", status if isinstance(status, int) else 0)


def _unusable(operation: str, why: str, next_step: str) -> UpstreamValidationError:
    return UpstreamValidationError(f"Failed to {operation}: {why}", next_step=next_step)


def _hidden(operation: str, required: str) -> ApiError:
    return ApiError(
        f"Permission denied: requires {required}", context={"operation": operation, "statusCode": 403}, next_step=ROLES
    )


# ---- changes that Redmine ignores


async def ignored(ctx: Context, issue: Mapping[str, Any], lost: Mapping[str, Any]) -> dict[str, str]:
    """Why Redmine ignored changes of an issue, by field, as far as its rules explain it."""
    told: dict[str, str] = {}
    try:
        if "project_id" in lost and (why := await _no_target(ctx, lost["project_id"])):
            told["project_id"] = why
        if "status_id" in lost and (why := await _no_transition(ctx, issue)):
            told["status_id"] = why
        if (computed := [field for field in _COMPUTED if field in lost]) and await _related(ctx, issue, "children"):
            why = "Redmine computes it from the subtasks: change it there."
            told |= dict.fromkeys(computed, why)
    except ToolError as unknown:
        ctx.log.warning("Redmine does not say why it ignored a change: %s", unknown.message)
    return told


async def _no_target(ctx: Context, key: str | int) -> str:
    found = await _project(ctx, key, "get project")
    if isinstance(found, NotFoundError) or found.status not in (CLOSED, ARCHIVED):
        return ""
    return f"Project {found.name} is {'closed' if found.status == CLOSED else 'archived'}."


async def _no_transition(ctx: Context, issue: Mapping[str, Any]) -> str:
    """Why an issue can be neither closed nor, once it is closed, opened again."""
    allowed = [status.get("is_closed") is True for status in parts_of(issue, "allowed_statuses")]
    number, is_closed = issue.get("id"), part_of(issue, "status").get("is_closed") is True
    if is_closed:
        parent = part_of(issue, "parent").get("id")
        if parent is None or False in allowed:
            return ""
        above = part_of(await ctx.http.get("issues", parent, operation="get issue", resource="Issue"), "issue")
        if part_of(above, "status").get("is_closed") is not True:
            return ""
        return f"It cannot be opened again while issue #{parent} is closed, whose subtask it is."
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
    found = await ctx.http.get(*path, operation="get issue", resource="Issue", params={"include": name})
    return parts_of(part_of(found, "issue"), name)


async def _open(ctx: Context, params: Mapping[str, Any]) -> list[int]:
    params = {**params, "status_id": "open", "limit": _MOST_TOLD + 1}
    found = await ctx.http.get("issues", operation="list issues", params=params)
    return [issue["id"] for issue in parts_of(found, "issues") if isinstance(issue.get("id"), int)]


def _numbers(issues: list[int]) -> str:
    told = ", ".join(f"#{number}" for number in issues[:_MOST_TOLD])
    return f"{told}, …" if len(issues) > _MOST_TOLD else told


# ---- what a change took along

_NOTHING: Final[tuple[Any, ...]] = (None, "", [])
# What an issue has, by the parameter that changes it.
_KEPT: Final = {
    **{f"{name}_id": name for name in ("tracker", "status", "priority", "category", "fixed_version", "assigned_to")},
    "parent_issue_id": "parent",
}


def taken_along(before: Mapping[str, Any], after: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, str]:
    """What else became of an issue that was moved, or got another tracker: by field, what it was and what it is."""
    told: dict[str, str] = {}
    for parameter, name in _KEPT.items():
        was, now = part_of(before, name), part_of(after, name)
        if was.get("id") not in (None, now.get("id")) and parameter not in asked:
            told[parameter] = f"was {_named(was)}, {f'is now {_named(now)}' if now else 'is empty now'}."
    asked_fields = {str(field.get("id")) for field in parts_of(asked, "custom_fields")}
    values = {field.get("id"): field.get("value") for field in parts_of(after, "custom_fields")}
    for field in parts_of(before, "custom_fields"):
        old, new = field.get("value"), values.get(field.get("id"))
        if old in _NOTHING or old == new or str(field.get("id")) in asked_fields:
            continue
        name = shortened(str(field.get("name", field.get("id"))))
        told[name] = f"was {_text(old)}, {f'is now {_text(new)}' if new not in _NOTHING else 'is gone'}."
    return told


def _named(thing: Mapping[str, Any]) -> str:
    return shortened(str(thing.get("name", f"#{thing.get('id')}")))


def _text(value: Any) -> str:
    return shortened(", ".join(map(str, value)) if isinstance(value, list) else str(value))
