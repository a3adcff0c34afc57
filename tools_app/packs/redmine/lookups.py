"""From names to ids: people say “Bug”, Redmine wants 1.

What Redmine has of each kind changes rarely and is asked for often: it is remembered for a minute, for each account.
A name that means nothing, or several things, is looked up once more and then refused with what there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools_app.packs.redmine import account, identity
from tools_app.packs.redmine.arguments import is_id
from tools_app.packs.redmine.memory import remembered
from tools_app.packs.redmine.shapes import part_of
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem, ToolError, shortened

_SECONDS: Final = 60.0
_MOST_TOLD: Final = 20
_PAGE: Final = 100
_MOST_PAGES: Final = 10
# What Redmine takes for the identifier of a project.
_IDENTIFIER: Final = re.compile("[a-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Choice:
    id: int
    name: str
    # Another name for it: the identifier of a project.
    key: str = ""

    def __str__(self) -> str:
        return f"{shortened(self.name)} ({self.key or self.id})"

    def is_called(self, name: str) -> bool:
        return name.casefold() in (self.name.casefold(), self.key.casefold())


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that is named: what it is called, and where Redmine lists it; `%s` stands for the project."""

    title: str
    name: str
    path: tuple[str, ...]
    # Redmine puts something else in the place of an id that it does not have, and says nothing.
    replaced: bool = False
    # Said with the project itself, where everybody who sees that may read it; the list is for its managers.
    included: bool = False
    # Digits may be a name of it, too, like the version 2026.
    digits: bool = False
    # Which of them Redmine lists only when asked to.
    status: str | None = None

    @property
    def operation(self) -> str:
        return f"list {self.name.replace('_', ' ')}"


TRACKER: Final = Kind("tracker", "trackers", ("trackers",), replaced=True)
STATUS: Final = Kind("status", "issue_statuses", ("issue_statuses",), replaced=True)
PRIORITY: Final = Kind("priority", "issue_priorities", ("enumerations", "issue_priorities"), replaced=True)
ACTIVITY: Final = Kind("activity", "time_entry_activities", ("enumerations", "time_entry_activities"), included=True)
# Active ones, and those that are closed: these can be read.
PROJECT: Final = Kind("project", "projects", ("projects",), status="1|5")
CATEGORY: Final = Kind("category", "issue_categories", ("projects", "%s", "issue_categories"), included=True)
VERSION: Final = Kind("version", "versions", ("projects", "%s", "versions"), digits=True)
MEMBER: Final = Kind("member", "memberships", ("projects", "%s", "memberships"))


async def id_of(ctx: Context, kind: Kind, given: str, parameter: str, project: int | str = "") -> int:
    """The id of what a caller named, or gave the id of.

    Raises:
        InvalidArgumentsError: there is no such thing, or there are several.
    """
    number = int(given) if is_id(given) else None
    if number is not None and not kind.replaced and not (kind.digits and project):
        return number

    def is_known(kept: Sequence[Choice]) -> bool:
        return number in {one.id for one in kept} or only(kept, given) is not None

    try:
        found = await choices(ctx, kind, project, enough=is_known)
    except ToolError:
        if number is None:
            raise
        return number
    if number is not None and (number in {one.id for one in found} or not (_called(found, given) or kind.replaced)):
        return number
    return chosen(kind.title, found, given, parameter).id


async def user_id(ctx: Context, given: str, parameter: str, project: int | str) -> int:
    """The id of a user: `me`, an id, or the name of a member of the project.

    Raises:
        InvalidArgumentsError: there is no such member, or there are several, or no project is known.
    """
    if given == "me":
        number = (await identity.me(ctx)).get("id")
        if not isinstance(number, int):
            raise refused(parameter, "Redmine does not say whose key this is", ())
        return number
    if not project and not is_id(given):
        expected = "me, an id, or a name together with project_id"
        message = f"Invalid value for parameter {parameter}: expected {expected}"
        raise InvalidArgumentsError(problems=[Problem(f"/{parameter}", message, expected)])
    return await id_of(ctx, MEMBER, given, parameter, project)


async def project_key(ctx: Context, given: str, parameter: str = "project_id") -> str:
    """A project as a path and a filter take it: by its id or identifier, where a caller may have said its name.

    Raises:
        InvalidArgumentsError: there is no such project, or there are several.
    """
    if is_id(given):
        return given

    def is_known(kept: Sequence[Choice]) -> bool:
        return _has_key(kept, given) or only(kept, given) is not None

    found = await choices(ctx, PROJECT, enough=is_known)
    # Redmine lists no archived projects, and may know more than were looked at.
    if _has_key(found, given) or (_IDENTIFIER.fullmatch(given) and not _called(found, given)):
        return given
    return str(chosen(PROJECT.title, found, given, parameter).id)


async def project_number(ctx: Context, given: str, parameter: str = "project_id") -> int:
    """The id of a project. Redmine breaks over the identifier of a parent, and never shows one afterwards.

    Raises:
        ToolError: there is no such project, or there are several.
    """
    key = await project_key(ctx, given, parameter)
    if is_id(key):
        return int(key)
    for one in await choices(ctx, PROJECT, enough=lambda kept: _has_key(kept, key)):
        if one.key == key:
            return one.id
    project = await account.one(ctx, "projects", key, name="project", operation="get project", resource="Project")
    number: int = project.get("id", 0)
    return number


def _has_key(found: Sequence[Choice], key: str) -> bool:
    return any(one.key == key for one in found)


def only(found: Sequence[Choice], given: str) -> int | None:
    """The id of the only one of this name."""
    called = _called(found, given)
    return called[0].id if len(called) == 1 else None


def _called(found: Sequence[Choice], given: str) -> list[Choice]:
    """Those of this name. What is spelt just so comes before what differs in capitals."""
    exact = [one for one in found if given in (one.name, one.key)]
    matching = exact or [one for one in found if one.is_called(given)]
    return list({one.id: one for one in matching}.values())


def chosen(title: str, found: Sequence[Choice], given: str, parameter: str) -> Choice:
    """The only one of this name.

    Raises:
        InvalidArgumentsError
    """
    match _called(found, given):
        case [only]:
            return only
        case []:
            alike = [one for one in found if given.casefold() in one.name.casefold()]
            raise refused(parameter, f"there is no {title} {shortened(given)}", alike or found)
        case several:
            raise refused(parameter, f"{shortened(given)} is the name of more than one {title}", several)


def refused(parameter: str, why: str, candidates: Sequence[Choice]) -> InvalidArgumentsError:
    """A name that cannot be used, with those that can."""
    told = ", ".join(str(one) for one in candidates[:_MOST_TOLD])
    more = f", … ({len(candidates)} in all)" if len(candidates) > _MOST_TOLD else ""
    expected = f"one of {told}{more}" if told else "an id"
    problem = Problem(f"/{parameter}", f"Invalid value for parameter {parameter}: {why}; expected {expected}", expected)
    return InvalidArgumentsError(problems=[problem])


async def choices(
    ctx: Context, kind: Kind, project: int | str = "", *, enough: Callable[[Sequence[Choice]], bool]
) -> list[Choice]:
    """What there is of a kind. What is remembered is used where it is `enough`: there may be more by now."""

    async def asked() -> list[Choice]:
        if kind.included and project:
            return choices_of(await _of_project(ctx, kind, project))
        return [choice for listed in await _pages(ctx, kind, project) for choice in choices_of(listed)]

    found: list[Choice] = await remembered(ctx, f"{kind.title} {project}", _SECONDS, asked, enough=enough)
    return found


async def _of_project(ctx: Context, kind: Kind, project: int | str) -> list[Any]:
    """What is said with a project. It may have activities of its own, with other ids than those that all have."""
    found = await account.ask(
        ctx, "projects", project, operation=kind.operation, resource="Project", params={"include": kind.name}
    )
    return _listed(found.get("project") if isinstance(found, dict) else None, kind.name)


async def _pages(ctx: Context, kind: Kind, project: int | str) -> list[list[Any]]:
    """All pages of a list. Those of a few things have one, and do not say so."""
    path = [str(project) if part == "%s" else part for part in kind.path]
    pages: list[list[Any]] = []
    total = _PAGE
    while len(pages) < _MOST_PAGES and len(pages) * _PAGE < total:
        found = await account.ask(
            ctx,
            *path,
            operation=kind.operation,
            resource="Project" if project else "",
            resource_id=project,
            params={"limit": _PAGE, "offset": len(pages) * _PAGE, "status": kind.status},
        )
        pages.append(_listed(found, kind.name))
        declared = found.get("total_count") if isinstance(found, dict) and "limit" in found else None
        total = declared if isinstance(declared, int) else 0
    return pages


def _listed(found: Any, name: str) -> list[Any]:
    listed = found.get(name) if isinstance(found, dict) else None
    return listed if isinstance(listed, list) else []


def choices_of(found: Sequence[Any]) -> list[Choice]:
    listed = [one for one in found if isinstance(one, dict)]
    # Members are listed with their roles around them.
    things = [part_of(one, "user") or part_of(one, "group") or one for one in listed]
    return [
        Choice(thing["id"], str(thing["name"]), str(thing.get("identifier") or ""))
        for thing in things
        if isinstance(thing.get("id"), int) and "name" in thing
    ]
