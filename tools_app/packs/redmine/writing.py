"""Changing things, and reading back what became of it.

Redmine lies politely. A change by somebody who may not make it is answered with 204 and forgotten; a status or tracker
that it does not have becomes another; dates of a parent are computed from its children. So what was asked for is
compared with what is there afterwards.
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

# What Redmine never shows again.
_UNSEEN: Final = frozenset(
    {
        *("password", "generate_password", "must_change_passwd", "send_information", "auth_source_id"),
        "mail_notification",
    }
)
_CLOSE: Final = 0.01
# Among so many comments one was just made.
_LATEST: Final = 5
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Noun:
    """A kind of thing that tools change."""

    name: str
    path: str
    title: str
    shape: Schema
    # What has to be asked for by name when it is read back, by the field that it shows.
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
    ctx: Context, noun: Noun, payload: Mapping[str, Any], *, beside: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """Make a thing. `beside` is sent with it, and is no part of it."""
    await identity.check(ctx)
    operation, body = f"create {noun.words}", {noun.name: payload, **beside}
    about: reasons.About = {"issue": payload["issue_id"]} if "issue_id" in payload else {}
    if "project_id" in payload:
        about = {"project": payload["project_id"]}
    async with reasons.explained(ctx, operation, **about):
        response = await ctx.http.post(noun.path, operation=operation, json=body)
    made = response.data.get(noun.name) if isinstance(response.data, dict) else None
    if not isinstance(made, dict) or not isinstance(made.get("id"), int):
        unknown = response.warning or "Redmine did not say which one it is."
        return done(f"{noun.title} was successfully created.", warnings=[unknown])
    return await _read_back(ctx, noun, made["id"], payload, "created", made)


async def update(
    ctx: Context,
    noun: Noun,
    key: int | str,
    payload: Mapping[str, Any],
    *,
    beside: Mapping[str, Any] = NOTHING,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Change a thing. `before` is what it was, where the change may take more along than it says.

    Raises:
        UpstreamValidationError: Redmine accepted the change, and nothing of it was made.
    """
    await identity.check(ctx)
    operation, body = f"update {noun.words}", {noun.name: payload, **beside}
    async with reasons.explained(ctx, operation, **noun.about(key)):
        await ctx.http.put(noun.path, key, operation=operation, resource=noun.title, json=body)
    return await _read_back(ctx, noun, key, payload, "updated", before=before)


async def delete(ctx: Context, noun: Noun, key: int | str) -> dict[str, Any]:
    """Remove a thing."""
    await identity.check(ctx)
    operation = f"delete {noun.words}"
    async with reasons.explained(ctx, operation, **noun.about(key)):
        await ctx.http.delete(noun.path, key, operation=operation, resource=noun.title)
    return done(f"{noun.label(None, key)} was successfully deleted.")


def done(message: str, *, warnings: Sequence[str] = (), partly: bool = False, **about: Any) -> dict[str, Any]:
    """The answer of a tool that made a change."""
    told = {"warnings": list(warnings)} if warnings else {}
    return {"response": {"status": "partial" if partly else "success", "message": message} | told | about}


async def _read_back(
    ctx: Context,
    noun: Noun,
    key: int | str,
    payload: Mapping[str, Any],
    verb: str,
    made: Mapping[str, Any] | None = None,
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
        about = {noun.name: noun.shown(made)} if made is not None else {}
        warning = f"It could not be read back: {error.message}"
        return done(f"{noun.label(made, key)} was successfully {verb}.", warnings=[warning], **about)
    took = {field: _took(field, asked, thing, payload) for field, asked in payload.items()}
    lost = {field: asked for field, asked in payload.items() if took[field] is False}
    label, fields = noun.label(thing, key), ", ".join(lost)
    why = await reasons.ignored(ctx, thing, lost) if lost and noun.name == "issue" else {}
    warnings = [_explained(field, asked, thing, why.get(field, "")) for field, asked in lost.items()]
    if unseen := [field for field, taken in took.items() if taken is None]:
        warnings.append(f"{', '.join(unseen)}: the account of this connection cannot see what became of it.")
    if lost and len(lost) == len(payload):
        maybe = (
            [] if why.keys() == lost.keys() else ["The account of this connection may lack the permission to edit it."]
        )
        raise UpstreamValidationError(
            f"{label} was not changed: Redmine accepted the request, and ignored {fields}",
            detail="\n".join(warnings),
            next_step=" ".join([*warnings, *maybe]),
        )
    along = reasons.taken_along(before, thing, payload) if before is not None else {}
    warnings += [f"{field}: {words}" for field, words in along.items()]
    ignored = [f"Redmine ignored {fields}"] if lost else []
    changed = [f"Redmine changed or dropped {', '.join(along)} along with it"] if along else []
    but = " and ".join([*ignored, *changed])
    message = f"{label} was {verb}, but {but}." if but else f"{label} was successfully {verb}."
    return done(message, warnings=warnings, partly=bool(but), **{noun.name: noun.shown(_without(thing, extra))})


def _without(thing: Mapping[str, Any], extra: Sequence[str]) -> dict[str, Any]:
    """What was asked for only to be compared would be a long answer to a small change."""
    return {name: part for name, part in thing.items() if name not in extra}


def _explained(field: str, asked: Any, thing: Mapping[str, Any], why: str) -> str:
    there = _there(field, thing)
    if field == "custom_fields":
        return _explained_fields(asked, thing)
    told = there.get("name", there.get("id")) if isinstance(there, dict) else there
    allowed = parts_of(thing, "allowed_statuses") if field == "status_id" else []
    names = [str(one["name"]) for one in allowed if "name" in one]
    more = f" From here it can become {', '.join(names)}." if names else ""
    if field == "private_notes":
        return "private_notes: the comment is there, and whoever sees the issue can read it."
    if isinstance(there, list) or field == "notes":
        return f"{field}: not all of it is there."
    still = f"{field}: is still {shortened(str(told)) if told not in (None, '') else 'empty'}."
    return f"{still} {why}{more}" if why else f"{still}{more}"


def _explained_fields(asked: Any, thing: Mapping[str, Any]) -> str:
    fields = _values(thing)
    lost = [str(value["id"]) for value in asked if not _same(fields.get(str(value["id"])), value["value"])]
    missing = [number for number in lost if number not in fields]
    more = f" The issue shows no field {', '.join(missing)}." if missing else ""
    return f"custom_fields: {', '.join(lost)} did not take the value.{more}"


def _took(field: str, asked: Any, thing: Mapping[str, Any], payload: Mapping[str, Any]) -> bool | None:
    """Whether a thing is as it was asked to be; None where that cannot be seen."""
    there = _there(field, thing)
    match field:
        case _ if field in _UNSEEN:
            return True
        case "notes" | "private_notes":
            return _took_comment(field, thing, payload)
        case "custom_fields":
            fields = _values(thing)
            return all(_same(fields.get(str(value["id"])), value["value"]) for value in asked)
        case "watcher_user_ids" | "tracker_ids" | "enabled_module_names" if not isinstance(there, list):
            return None
        case "watcher_user_ids":
            # Redmine may let the author watch as well.
            return set(asked) <= _all_of(there, "id")
        case "tracker_ids":
            return _all_of(there, "id") == set(asked)
        case "enabled_module_names":
            return _all_of(there, "name") == set(asked)
        case "project_id" if not str(asked).isdecimal():
            return True  # an identifier, which is not shown; where there is no such project, nothing is made
    if field.endswith("_id"):
        found = there.get("id") if isinstance(there, dict) else None
        return str(found or "") == str(asked or "")
    return _same(there, asked) if field in thing else None


def _took_comment(field: str, thing: Mapping[str, Any], payload: Mapping[str, Any]) -> bool | None:
    """Whether a comment is there, and as private as it was to be."""
    if "notes" not in payload:
        return True  # there is none that could be private
    if not isinstance(thing.get("journals"), list):
        return None
    same = [one for one in parts_of(thing, "journals")[-_LATEST:] if _same(one.get("notes"), payload["notes"])]
    is_private = payload.get("private_notes") is True
    if not same:
        # Not everybody who may write private comments may read them.
        return None if is_private else False
    return field == "notes" or same[-1].get("private_notes", False) is is_private


def _values(thing: Mapping[str, Any]) -> dict[str, Any]:
    """What its custom fields hold."""
    return {str(field.get("id")): field.get("value") for field in parts_of(thing, "custom_fields")}


def _all_of(there: Any, name: str) -> set[Any]:
    return {one[name] for one in there if isinstance(one, dict) and isinstance(one.get(name), str | int)}


def _there(field: str, thing: Mapping[str, Any]) -> Any:
    """What a thing has, under the name by which it is changed."""
    names = {
        "parent_issue_id": "parent",
        "watcher_user_ids": "watchers",
        "tracker_ids": "trackers",
        "enabled_module_names": "enabled_modules",
    }
    return thing.get(names.get(field, field.removesuffix("_id")))


def _same(there: Any, asked: Any) -> bool:
    if isinstance(there, list) or isinstance(asked, list):
        # One value does for a field that takes several, and none is an empty list.
        return _texts(there) == _texts(asked)
    if isinstance(asked, bool) or there is None or asked is None:
        return there == asked or (there in (None, "") and asked in (None, ""))
    if isinstance(asked, int | float) and isinstance(there, int | float):
        return abs(there - asked) < _CLOSE
    return " ".join(str(there).split()) == " ".join(str(asked).split())


def _texts(value: Any) -> set[str]:
    return {str(one) for one in (value if isinstance(value, list) else [value]) if one not in ("", None)}
