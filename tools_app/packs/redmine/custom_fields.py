"""Custom fields: lists of them, and their ids by name.

Only administrators of Redmine can read the definitions, and these do not say which projects use a field. A project
lists the fields that it has selected, but not those of all projects. So issues are read, too: an issue has every field
of its project and tracker, with or without a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools_app.packs.redmine import account, identity, lookups, shapes
from tools_app.packs.redmine.arguments import CustomValue, is_id
from tools_app.packs.redmine.memory import cached_answer
from tools_app.packs.redmine.shapes import part_of, parts_of
from tools_app.sdk.context import Context

Field = dict[str, Any]
Customized = Literal["issue", "time_entry", "version", "project", "user"]
_SECONDS: Final = 60.0
# The most trackers of a project to query one by one, if the latest issues have none of theirs.
_MOST_TRACKERS: Final = 20
_OPERATION: Final = "list custom fields"
_NO_DEFINITIONS: Final = "Redmine shows definitions (required, possible values) to its administrators only."


@dataclass(frozen=True, slots=True)
class Fields:
    """Custom fields, whether the list is complete, and a message about it."""

    fields: list[Field]
    is_complete: bool
    message: str = ""


async def of_everything(ctx: Context) -> Fields:
    """All custom fields; without permission to list them, those of the latest issues."""
    definitions = await _definitions(ctx)
    if definitions is not None:
        return Fields(definitions, is_complete=True)
    fields = _fields_of(await _issues(ctx))
    message = "These are the fields of the latest issues; there may be others. Give project_id for those of a project."
    return Fields(fields, is_complete=False, message=f"{message} {_NO_DEFINITIONS}")


async def of_project(ctx: Context, key: str | int) -> Fields:
    """The fields that issues of a project can have."""
    project = await account.one(
        ctx,
        *("projects", key),
        name="project",
        operation=_OPERATION,
        resource="Project",
        include="trackers,issue_custom_fields",
    )
    trackers = {str(one.get("id")): str(one.get("name", "")) for one in parts_of(project, "trackers")}
    issues = await _issues(ctx, key)
    for tracker in [one for one in trackers if one not in _trackers_of(issues)][:_MOST_TRACKERS]:
        issues += await _issues(ctx, key, tracker)
    fields_of_issues, project_fields = _fields_of(issues), parts_of(project, "issue_custom_fields")
    unseen_trackers = [name for tracker, name in trackers.items() if tracker not in _trackers_of(issues)]
    all_fields = await _definitions(ctx)
    if all_fields is not None:
        return _of_definitions(
            all_fields,
            trackers,
            _trackers_of(issues),
            _numbers(fields_of_issues) | _numbers(project_fields),
            unseen_trackers,
        )
    other_fields = [
        {**field, "customized_type": "issue"}
        for field in project_fields
        if field.get("id") not in _numbers(fields_of_issues)
    ]
    fields = [*fields_of_issues, *(shapes.shown(shapes.CUSTOM_FIELD, field) for field in other_fields)]
    if not unseen_trackers:
        return Fields(fields, is_complete=True, message=_NO_DEFINITIONS)
    message = f"There is no issue of {', '.join(unseen_trackers)} to read fields from: some may be missing."
    return Fields(fields, is_complete=False, message=f"{message} {_NO_DEFINITIONS}")


def _of_definitions(
    definitions: Sequence[Field],
    trackers: Mapping[str, str],
    with_issues: set[str],
    sure_ids: set[Any],
    unseen_trackers: Sequence[str],
) -> Fields:
    """The definitions that the project uses. None is missing; without issues, unused ones may be included."""
    fields: list[Field] = []
    unsure: list[str] = []
    for field in definitions:
        own = {str(tracker.get("id")) for tracker in parts_of(field, "trackers")} & trackers.keys()
        if field.get("id") in sure_ids:
            fields.append(field)
        elif field.get("customized_type") == "issue" and own and not own & with_issues:
            fields.append(field)
            unsure.append(str(field.get("name", field.get("id"))))
    if not unsure:
        return Fields(fields, is_complete=True)
    message = (
        f"There is no issue of {', '.join(unseen_trackers)} to check whether this project uses {', '.join(unsure)}."
    )
    return Fields(fields, is_complete=True, message=message)


async def to_send(
    ctx: Context, values: Sequence[CustomValue], customized: Customized, project: int | str, own: Sequence[Field] = ()
) -> list[dict[str, Any]]:
    """Values for Redmine, with ids instead of names. `own` are the fields of the object to change.

    Raises:
        InvalidArgumentsError: a name is unknown or ambiguous.
    """
    return [
        {"id": await _number(ctx, value.key, customized, project, own), "value": value.sendable()} for value in values
    ]


async def _number(ctx: Context, name: str, customized: Customized, project: int | str, own: Sequence[Field]) -> int:
    if is_id(name):
        return int(name)
    if (number := lookups.only(lookups.choices_of(own), name)) is not None:
        return number

    async def fetch() -> list[lookups.Choice]:
        return lookups.choices_of(await _fields(ctx, customized, project))

    choices: list[lookups.Choice] = await cached_answer(
        ctx,
        f"custom fields of {customized} {project}",
        _SECONDS,
        fetch,
        enough=lambda cached: lookups.only(cached, name) is not None,
    )
    return lookups.choose("custom field", choices, name, "custom_fields").id


async def _fields(ctx: Context, customized: Customized, project: int | str) -> list[Field]:
    if customized == "issue":
        field_list = await of_project(ctx, project) if project else Fields([], is_complete=False)
        if field_list.is_complete:
            return field_list.fields
        # Fields of all projects are found in issues of other projects.
        other_fields = (await of_everything(ctx)).fields
        return [
            *field_list.fields,
            *(field for field in other_fields if field.get("id") not in _numbers(field_list.fields)),
        ]
    definitions = await _definitions(ctx)
    if definitions is not None:
        return [field for field in definitions if field.get("customized_type") == customized]
    # Every object of these types has all of them.
    return [field for one in await _examples(ctx, customized, project) for field in parts_of(one, "custom_fields")]


async def _examples(ctx: Context, customized: Customized, project: int | str) -> list[Field]:
    """Objects of a type, from which an account that may not list the definitions reads the fields."""
    match customized:
        case "version" if project:
            path: tuple[str | int, ...] = ("projects", project, "versions")
            versions, _ = await account.many(ctx, *path, name="versions", operation="list versions", resource="Project")
            return versions[:1]
        case "project":
            projects, _ = await account.many(
                ctx, "projects", name="projects", operation="list projects", params={"limit": 1}
            )
            return projects
        case "time_entry":
            entries, _ = await account.many(
                ctx, "time_entries", name="time_entries", operation="list time entries", params={"limit": 1}
            )
            return entries
    return []


async def _definitions(ctx: Context) -> list[Field] | None:
    """All definitions; None if this account may not list them."""
    if not await identity.is_administrator(ctx):
        return None
    definitions, _ = await account.many(ctx, "custom_fields", name="custom_fields", operation=_OPERATION)
    return [shapes.shown(shapes.CUSTOM_FIELD, _with_values(field)) for field in definitions]


def _with_values(field: Field) -> Field:
    if not isinstance(field.get("possible_values"), list):
        return field
    return field | {"possible_values": [one.get("value") for one in parts_of(field, "possible_values")]}


async def _issues(ctx: Context, project: str | int | None = None, tracker: str | None = None) -> list[Field]:
    """The latest issues; for a project without subprojects, which may have other fields."""
    issues, _ = await account.many(
        ctx,
        "issues",
        name="issues",
        operation=_OPERATION,
        resource="Project",
        resource_id=project or "",
        params={
            "status_id": "*",
            "limit": 1 if tracker else 100,
            "project_id": project,
            "subproject_id": "!*" if project else None,
            "tracker_id": tracker,
        },
    )
    return issues


def _fields_of(issues: Sequence[Field]) -> list[Field]:
    fields: dict[str, Field] = {}
    for issue in issues:
        tracker = part_of(issue, "tracker")
        for field in parts_of(issue, "custom_fields"):
            entry = fields.setdefault(str(field.get("id")), {**field, "customized_type": "issue", "trackers": []})
            if tracker and tracker not in entry["trackers"]:
                entry["trackers"].append(tracker)
    return [shapes.shown(shapes.CUSTOM_FIELD, field) for field in fields.values()]


def _trackers_of(issues: Sequence[Field]) -> set[str]:
    return {str(part_of(issue, "tracker").get("id")) for issue in issues}


def _numbers(fields: Sequence[Field]) -> set[Any]:
    return {field.get("id") for field in fields}
