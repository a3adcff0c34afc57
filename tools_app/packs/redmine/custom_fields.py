"""Custom fields: which there are, and their ids where callers said their names.

Only administrators of Redmine are shown the definitions, and these do not say which projects use a field. A project
names the fields that it has chosen, but not those that all projects have. So issues are looked at, too: an issue shows
every field that its project and tracker have, with or without a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tools_app.packs.redmine import account, identity, lookups, shapes
from tools_app.packs.redmine.arguments import CustomValue, is_id
from tools_app.packs.redmine.memory import remembered
from tools_app.packs.redmine.shapes import part_of, parts_of
from tools_app.sdk.context import Context

Field = dict[str, Any]
Customized = Literal["issue", "time_entry"]
_SECONDS: Final = 60.0
# Trackers of a project are looked at one by one where the latest issues show none of theirs; at most so many.
_MOST_TRACKERS: Final = 20
_OPERATION: Final = "list custom fields"
_NO_DEFINITIONS: Final = "Redmine shows definitions (required, possible values) to its administrators only."


@dataclass(frozen=True, slots=True)
class Found:
    """Custom fields, whether these are all, and what else is to be said of them."""

    fields: list[Field]
    is_complete: bool
    message: str = ""


async def of_everything(ctx: Context) -> Found:
    """All custom fields; for an account that may not see them, those that the latest issues show."""
    defined = await _defined(ctx)
    if defined is not None:
        return Found(defined, is_complete=True)
    fields = _shown_by(await _issues(ctx))
    message = "These are the fields of the latest issues; there may be others. Give project_id for those of a project."
    return Found(fields, is_complete=False, message=f"{message} {_NO_DEFINITIONS}")


async def of_project(ctx: Context, key: str | int) -> Found:
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
    shown, chosen = _shown_by(issues), parts_of(project, "issue_custom_fields")
    unseen = [name for tracker, name in trackers.items() if tracker not in _trackers_of(issues)]
    defined = await _defined(ctx)
    if defined is not None:
        return _among(defined, trackers, _trackers_of(issues), _numbers(shown) | _numbers(chosen), unseen)
    named = [{**field, "customized_type": "issue"} for field in chosen if field.get("id") not in _numbers(shown)]
    fields = [*shown, *(shapes.shown(shapes.CUSTOM_FIELD, field) for field in named)]
    if not unseen:
        return Found(fields, is_complete=True, message=_NO_DEFINITIONS)
    message = f"No issue of {', '.join(unseen)} is there to show its fields: some may be missing."
    return Found(fields, is_complete=False, message=f"{message} {_NO_DEFINITIONS}")


def _among(
    defined: Sequence[Field],
    trackers: Mapping[str, str],
    seen: set[str],
    sure: set[Any],
    unseen: Sequence[str],
) -> Found:
    """Of all definitions, those of the project. None is missing; where no issue shows it, some may be too many."""
    fields: list[Field] = []
    unsure: list[str] = []
    for field in defined:
        own = {str(tracker.get("id")) for tracker in parts_of(field, "trackers")} & trackers.keys()
        if field.get("id") in sure:
            fields.append(field)
        elif field.get("customized_type") == "issue" and own and not own & seen:
            fields.append(field)
            unsure.append(str(field.get("name", field.get("id"))))
    if not unsure:
        return Found(fields, is_complete=True)
    message = f"No issue of {', '.join(unseen)} is there to show whether this project uses {', '.join(unsure)}."
    return Found(fields, is_complete=True, message=message)


async def sent(
    ctx: Context, values: Sequence[CustomValue], customized: Customized, project: int | str, known: Sequence[Field] = ()
) -> list[dict[str, Any]]:
    """Values as Redmine takes them, with ids in the place of names. `known` are the fields of what is changed.

    Raises:
        InvalidArgumentsError: a name means nothing, or several things.
    """
    return [
        {"id": await _number(ctx, value.named, customized, project, known), "value": value.sent()} for value in values
    ]


async def _number(ctx: Context, named: str, customized: Customized, project: int | str, known: Sequence[Field]) -> int:
    if is_id(named):
        return int(named)
    if (number := lookups.only(lookups.choices_of(known), named)) is not None:
        return number

    async def asked() -> list[lookups.Choice]:
        return lookups.choices_of(await _fields(ctx, customized, project))

    found: list[lookups.Choice] = await remembered(
        ctx,
        f"custom fields of {customized} {project}",
        _SECONDS,
        asked,
        enough=lambda kept: lookups.only(kept, named) is not None,
    )
    return lookups.chosen("custom field", found, named, "custom_fields").id


async def _fields(ctx: Context, customized: Customized, project: int | str) -> list[Field]:
    if customized == "issue":
        found = await of_project(ctx, project) if project else Found([], is_complete=False)
        if found.is_complete:
            return found.fields
        # Fields that all projects have are shown by issues of others.
        others = (await of_everything(ctx)).fields
        return [*found.fields, *(field for field in others if field.get("id") not in _numbers(found.fields))]
    defined = await _defined(ctx)
    if defined is not None:
        return [field for field in defined if field.get("customized_type") == customized]
    # Every time entry shows all of them.
    entries, _ = await account.many(
        ctx, "time_entries", name="time_entries", operation="list time entries", params={"limit": 1}
    )
    return [field for entry in entries for field in parts_of(entry, "custom_fields")]


async def _defined(ctx: Context) -> list[Field] | None:
    """All there are, where this account may see them all."""
    if not await identity.is_administrator(ctx):
        return None
    found, _ = await account.many(ctx, "custom_fields", name="custom_fields", operation=_OPERATION)
    return [shapes.shown(shapes.CUSTOM_FIELD, _with_values(field)) for field in found]


def _with_values(field: Field) -> Field:
    if not isinstance(field.get("possible_values"), list):
        return field
    return field | {"possible_values": [one.get("value") for one in parts_of(field, "possible_values")]}


async def _issues(ctx: Context, project: str | int | None = None, tracker: str | None = None) -> list[Field]:
    """The latest issues; of a project without its subprojects, which may have other fields."""
    found, _ = await account.many(
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
    return found


def _shown_by(issues: Sequence[Field]) -> list[Field]:
    fields: dict[str, Field] = {}
    for issue in issues:
        tracker = part_of(issue, "tracker")
        for field in parts_of(issue, "custom_fields"):
            known = fields.setdefault(str(field.get("id")), {**field, "customized_type": "issue", "trackers": []})
            if tracker and tracker not in known["trackers"]:
                known["trackers"].append(tracker)
    return [shapes.shown(shapes.CUSTOM_FIELD, field) for field in fields.values()]


def _trackers_of(issues: Sequence[Field]) -> set[str]:
    return {str(part_of(issue, "tracker").get("id")) for issue in issues}


def _numbers(fields: Sequence[Field]) -> set[Any]:
    return {field.get("id") for field in fields}
