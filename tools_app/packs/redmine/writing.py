"""Changes, verified by reading the object again.

Redmine ignores changes silently: without permission it answers 204 and changes nothing; an unknown status or tracker
becomes another one; dates of a parent are computed from its children. So the requested values are compared with the
result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from tools_app.packs.redmine import account, identity, reasons
from tools_app.packs.redmine.shapes import parts_of, shown
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ToolError, UpstreamValidationError, shortened
from tools_app.sdk.schemas import Schema

# Fields that Redmine never returns.
_UNSEEN: Final = frozenset(
    {
        *("password", "generate_password", "must_change_passwd", "send_information", "auth_source_id"),
        "mail_notification",
    }
)
# Parameters that objects have under another name.
_NAMES: Final = {
    "parent_issue_id": "parent",
    "watcher_user_ids": "watchers",
    "tracker_ids": "trackers",
    "enabled_module_names": "enabled_modules",
}
_CLOSE: Final = 0.01
# The new comment is searched among this number of latest comments.
_LATEST: Final = 5
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Noun:
    """A type of object that tools change."""

    name: str
    path: str
    title: str
    shape: Schema
    # By field: the `include` that is needed to read it back.
    included: Mapping[str, str] = field(default_factory=dict)
    show: Callable[[Any], Any] | None = None

    @property
    def words(self) -> str:
        return self.title.lower()

    def about(self, key: int | str) -> reasons.About:
        match self.name:
            case "issue":
                return {"issue": key}
            case "time_entry":
                return {"entry": key}
            case "project":
                return {"project": key}
        return {}

    def shown(self, thing: Any) -> Any:
        return self.show(thing) if self.show is not None else shown(self.shape, thing)

    def label(self, thing: Mapping[str, Any] | None, key: int | str) -> str:
        return f"{self.title} #{thing['id'] if thing and 'id' in thing else key}"


async def create(
    ctx: Context,
    noun: Noun,
    payload: Mapping[str, Any],
    *,
    beside: Mapping[str, Any] = NOTHING,
    below: tuple[str, str] | None = None,
    operation: str = "",
) -> dict[str, Any]:
    """Create an object. `beside` is sent next to it in the body; `below` is the path of what it belongs to."""
    await identity.check(ctx)
    operation, body = operation or f"create {noun.words}", {noun.name: payload, **beside}
    about: reasons.About = {"issue": payload["issue_id"]} if "issue_id" in payload else {}
    if "project_id" in payload or below is not None:
        about = {"project": payload["project_id"] if below is None else below[1]}
    async with reasons.with_reasons(ctx, operation, **about):
        path, resource = (*(below or ()), noun.path), "Project" if below is not None else ""
        response = await ctx.http.post(*path, operation=operation, resource=resource, json=body)
    created = response.data.get(noun.name) if isinstance(response.data, dict) else None
    if not isinstance(created, dict) or not isinstance(created.get("id"), int):
        unknown = response.warning or "Redmine did not return its id."
        return done(f"{noun.title} was successfully created.", warnings=[unknown])
    return await _read_back(ctx, noun, created["id"], payload, "created", created)


async def update(
    ctx: Context,
    noun: Noun,
    key: int | str,
    payload: Mapping[str, Any],
    *,
    beside: Mapping[str, Any] = NOTHING,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Change an object. `before` is its previous state, if the change may have side effects on other fields.

    Raises:
        UpstreamValidationError: Redmine accepted the request but ignored every change.
    """
    await identity.check(ctx)
    operation, body = f"update {noun.words}", {noun.name: payload, **beside}
    async with reasons.with_reasons(ctx, operation, **noun.about(key)):
        await ctx.http.put(noun.path, key, operation=operation, resource=noun.title, json=body)
    return await _read_back(ctx, noun, key, payload, "updated", before=before)


async def delete(ctx: Context, noun: Noun, key: int | str, *, params: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    """Delete an object."""
    await identity.check(ctx)
    operation = f"delete {noun.words}"
    async with reasons.with_reasons(ctx, operation, **noun.about(key)):
        await ctx.http.delete(noun.path, key, operation=operation, resource=noun.title, params=dict(params))
    return done(f"{noun.label(None, key)} was successfully deleted.")


def done(message: str, *, warnings: Sequence[str] = (), partly: bool = False, **about: Any) -> dict[str, Any]:
    """The answer of a tool that changes something."""
    notes = {"warnings": list(warnings)} if warnings else {}
    return {"response": {"status": "partial" if partly else "success", "message": message} | notes | about}


async def _read_back(
    ctx: Context,
    noun: Noun,
    key: int | str,
    payload: Mapping[str, Any],
    verb: str,
    created: Mapping[str, Any] | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    extra = sorted({noun.included[field] for field in payload if field in noun.included})
    try:
        thing = await account.one(
            ctx,
            *(noun.path, key),
            name=noun.name,
            operation=f"get {noun.words}",
            resource=noun.title,
            include=",".join(extra),
        )
    except ToolError as error:
        about = {noun.name: noun.shown(created)} if created is not None else {}
        warning = f"The result could not be verified: {error.message}"
        return done(f"{noun.label(created, key)} was successfully {verb}.", warnings=[warning], **about)
    applied = {field: _is_applied(field, value, thing, payload) for field, value in payload.items()}
    ignored = {field: value for field, value in payload.items() if applied[field] is False}
    label, fields = noun.label(thing, key), ", ".join(ignored)
    reasons_by_field = await reasons.ignored(ctx, thing, ignored) if ignored and noun.name == "issue" else {}
    warnings = [_explanation(field, value, thing, reasons_by_field.get(field, "")) for field, value in ignored.items()]
    if invisible := [field for field, is_applied in applied.items() if is_applied is None]:
        warnings.append(f"{', '.join(invisible)}: the account of this connection cannot see the result.")
    if ignored and len(ignored) == len(payload):
        maybe = (
            []
            if reasons_by_field.keys() == ignored.keys()
            else ["The account of this connection may lack the permission to edit it."]
        )
        raise UpstreamValidationError(
            f"{label} was not changed: Redmine accepted the request but ignored {fields}",
            detail="\n".join(warnings),
            next_step=" ".join([*warnings, *maybe]),
        )
    side_effects = reasons.side_effects_of(before, thing, payload) if before is not None else {}
    warnings += [f"{field}: {words}" for field, words in side_effects.items()]
    ignored_part = [f"Redmine ignored {fields}"] if ignored else []
    changed_part = [f"Redmine also changed or dropped {', '.join(side_effects)}"] if side_effects else []
    but = " and ".join([*ignored_part, *changed_part])
    message = f"{label} was {verb}, but {but}." if but else f"{label} was successfully {verb}."
    is_brief = verb == "updated" and noun.name == "issue"
    result = _changed(thing, payload) if is_brief else _without(thing, extra)
    return done(message, warnings=warnings, partly=bool(but), **{noun.name: noun.shown(result)})


def _changed(thing: Mapping[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for of an issue, as it is now: all of it can be long, and get_issue has it.

    Without the description, which was compared, and which the caller has.
    """
    names = {"id", "status", "updated_on", *map(_name_of, payload)} - {"description", "watchers"}
    changed = {name: value for name, value in thing.items() if name in names}
    if "custom_fields" in changed:
        sent = {str(value["id"]) for value in payload["custom_fields"]}
        changed["custom_fields"] = [one for one in parts_of(thing, "custom_fields") if str(one.get("id")) in sent]
    return changed


def _without(thing: Mapping[str, Any], extra: Sequence[str]) -> dict[str, Any]:
    """The object without the `include`s that were needed only for the comparison: they can be long."""
    return {name: part for name, part in thing.items() if name not in extra}


def _explanation(field: str, requested: Any, thing: Mapping[str, Any], reason: str) -> str:
    current = _current(field, thing)
    if field == "custom_fields":
        return _fields_explanation(requested, thing)
    value = current.get("name", current.get("id")) if isinstance(current, dict) else current
    allowed = parts_of(thing, "allowed_statuses") if field == "status_id" else []
    names = [str(one["name"]) for one in allowed if "name" in one]
    more = f" Possible statuses: {', '.join(names)}." if names else ""
    if field == "private_notes":
        return "private_notes: the comment was added, but it is not private: all who see the issue can read it."
    if isinstance(current, list) or field == "notes":
        return f"{field}: applied only in part."
    still = f"{field}: is still {shortened(str(value)) if value not in (None, '') else 'empty'}."
    return f"{still} {reason}{more}" if reason else f"{still}{more}"


def _fields_explanation(requested: Any, thing: Mapping[str, Any]) -> str:
    fields = _values(thing)
    ignored_ids = [str(value["id"]) for value in requested if not same(fields.get(str(value["id"])), value["value"])]
    missing = [number for number in ignored_ids if number not in fields]
    more = f" The issue shows no field {', '.join(missing)}." if missing else ""
    return f"custom_fields: the value of {', '.join(ignored_ids)} was not applied.{more}"


def _is_applied(field: str, requested: Any, thing: Mapping[str, Any], payload: Mapping[str, Any]) -> bool | None:
    """Whether a field has the requested value; None if it is not visible."""
    current = _current(field, thing)
    match field:
        case _ if field in _UNSEEN:
            return True
        case "notes" | "private_notes":
            return _is_comment_applied(field, thing, payload)
        case "custom_fields":
            fields = _values(thing)
            return all(same(fields.get(str(value["id"])), value["value"]) for value in requested)
        case "watcher_user_ids" | "tracker_ids" | "enabled_module_names" if not isinstance(current, list):
            return None
        case "watcher_user_ids":
            # Redmine may add the author as a watcher.
            return set(requested) <= _all_of(current, "id")
        case "tracker_ids":
            return _all_of(current, "id") == set(requested)
        case "enabled_module_names":
            return _all_of(current, "name") == set(requested)
        case "project_id" if not str(requested).isdecimal():
            return True  # an identifier, which issues do not show; an unknown one would have been an error
    if field.endswith("_id"):
        current_id = current.get("id") if isinstance(current, dict) else None
        return str(current_id or "") == str(requested or "")
    return same(current, requested) if field in thing else None


def _is_comment_applied(field: str, thing: Mapping[str, Any], payload: Mapping[str, Any]) -> bool | None:
    """Whether the comment was added, with the requested privacy."""
    if "notes" not in payload:
        return True  # no comment, so nothing to be private
    if not isinstance(thing.get("journals"), list):
        return None
    matching = [one for one in parts_of(thing, "journals")[-_LATEST:] if same(one.get("notes"), payload["notes"])]
    is_private = payload.get("private_notes") is True
    if not matching:
        # Users who may write private comments may still not be allowed to read them.
        return None if is_private else False
    return field == "notes" or matching[-1].get("private_notes", False) is is_private


def _values(thing: Mapping[str, Any]) -> dict[str, Any]:
    """The values of its custom fields by id."""
    return {str(field.get("id")): field.get("value") for field in parts_of(thing, "custom_fields")}


def _all_of(current: Any, name: str) -> set[Any]:
    return {one[name] for one in current if isinstance(one, dict) and isinstance(one.get(name), str | int)}


def _current(field: str, thing: Mapping[str, Any]) -> Any:
    """The current value for a parameter, which may have another name."""
    return thing.get(_name_of(field))


def _name_of(field: str) -> str:
    return _NAMES.get(field, field.removesuffix("_id"))


def same(current: Any, requested: Any) -> bool:
    """Whether a value is the requested one, as Redmine stores it."""
    if isinstance(current, list) or isinstance(requested, list):
        # A single value equals a list of one, and no value equals an empty list.
        return _texts(current) == _texts(requested)
    if isinstance(requested, bool) or current is None or requested is None:
        return current == requested or (current in (None, "") and requested in (None, ""))
    if isinstance(requested, int | float) and isinstance(current, int | float):
        return abs(current - requested) < _CLOSE
    return " ".join(str(current).split()) == " ".join(str(requested).split())


def _texts(value: Any) -> set[str]:
    return {str(one) for one in (value if isinstance(value, list) else [value]) if one not in ("", None)}
