"""Names to ids: people say “Bug”, Redmine wants 1.

Lists of names change rarely and are needed often: they are cached for a minute, for each account. An unknown or
ambiguous name is looked up again without the cache, and then refused with the valid names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools_app.packs.redmine import account, identity
from tools_app.packs.redmine.arguments import is_id
from tools_app.packs.redmine.memory import cached_answer
from tools_app.packs.redmine.shapes import part_of
from tools_app.sdk.checker import invalid, rejected
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, ToolError, shortened

_SECONDS: Final = 60.0
_MOST_LISTED: Final = 20
_PAGE: Final = 100
_MOST_PAGES: Final = 10
# What can be the identifier of a project.
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
    """A type of named object, and the path of its list; `%s` is replaced by the project."""

    title: str
    name: str
    path: tuple[str, ...]
    # Redmine silently replaces an unknown id by another one.
    replaced: bool = False
    # Read with the project itself, which all who see the project may do; the list is for its managers only.
    included: bool = False
    # A name may consist of digits, like the version 2026.
    digits: bool = False
    # The `status` parameter of its list.
    status: str | None = None

    @property
    def operation(self) -> str:
        return f"list {self.name.replace('_', ' ')}"


TRACKER: Final = Kind("tracker", "trackers", ("trackers",), replaced=True)
STATUS: Final = Kind("status", "issue_statuses", ("issue_statuses",), replaced=True)
PRIORITY: Final = Kind("priority", "issue_priorities", ("enumerations", "issue_priorities"), replaced=True)
ACTIVITY: Final = Kind("activity", "time_entry_activities", ("enumerations", "time_entry_activities"), included=True)
# Active and closed ones: closed ones can be read.
PROJECT: Final = Kind("project", "projects", ("projects",), status="1|5")
CATEGORY: Final = Kind("category", "issue_categories", ("projects", "%s", "issue_categories"), included=True)
VERSION: Final = Kind("version", "versions", ("projects", "%s", "versions"), digits=True)
QUERY: Final = Kind("query", "queries", ("queries",))
ROLE: Final = Kind("role", "roles", ("roles",), replaced=True)
MEMBER: Final = Kind("member", "memberships", ("projects", "%s", "memberships"))


async def id_of(ctx: Context, kind: Kind, value: str, parameter: str, project: int | str = "") -> int:
    """The id of an object that a caller gave by name or id.

    Raises:
        InvalidArgumentsError: the name is unknown or ambiguous.
    """
    number = int(value) if is_id(value) else None
    if number is not None and not kind.replaced and not (kind.digits and project):
        return number

    def is_known(cached: Sequence[Choice]) -> bool:
        return number in {one.id for one in cached} or only(cached, value) is not None

    try:
        known = await choices(ctx, kind, project, enough=is_known)
    except ToolError:
        if number is None:
            raise
        return number
    if number is not None and (number in {one.id for one in known} or not (_with_name(known, value) or kind.replaced)):
        return number
    return choose(kind.title, known, value, parameter).id


async def user_id(ctx: Context, value: str, parameter: str, project: int | str) -> int:
    """The id of a user: `me`, an id, or the name of a member of the project.

    Raises:
        InvalidArgumentsError: the name is unknown or ambiguous, or there is no project to look in.
    """
    if value == "me":
        number = (await identity.me(ctx)).get("id")
        if not isinstance(number, int):
            raise refused(parameter, "Redmine did not return the user of this API key", ())
        return number
    if not project and not is_id(value):
        expected = "me, an id, or a name together with project_id"
        raise InvalidArgumentsError(problems=[invalid([parameter], expected)])
    return await id_of(ctx, MEMBER, value, parameter, project)


async def project_key(ctx: Context, value: str, parameter: str = "project_id") -> str:
    """The id or identifier of a project, for paths and filters; callers may give its name.

    Raises:
        InvalidArgumentsError: the name is unknown or ambiguous.
    """
    if is_id(value):
        return value

    def is_known(cached: Sequence[Choice]) -> bool:
        return _has_key(cached, value) or only(cached, value) is not None

    projects = await choices(ctx, PROJECT, enough=is_known)
    # Redmine does not list archived projects, and may have more than were read.
    if _has_key(projects, value) or (_IDENTIFIER.fullmatch(value) and not _with_name(projects, value)):
        return value
    return str(choose(PROJECT.title, projects, value, parameter).id)


async def project_number(ctx: Context, value: str, parameter: str = "project_id") -> int:
    """The id of a project. Redmine fails with the identifier of a parent, and does not return identifiers to compare.

    Raises:
        ToolError: the name is unknown or ambiguous.
    """
    key = await project_key(ctx, value, parameter)
    if is_id(key):
        return int(key)
    for one in await choices(ctx, PROJECT, enough=lambda cached: _has_key(cached, key)):
        if one.key == key:
            return one.id
    project = await account.one(ctx, "projects", key, name="project", operation="get project", resource="Project")
    number: int = project.get("id", 0)
    return number


def _has_key(candidates: Sequence[Choice], key: str) -> bool:
    return any(one.key == key for one in candidates)


def only(candidates: Sequence[Choice], name: str) -> int | None:
    """The id of the object with this name; None if there is none or several."""
    matches = _with_name(candidates, name)
    return matches[0].id if len(matches) == 1 else None


def _with_name(candidates: Sequence[Choice], name: str) -> list[Choice]:
    """Those with this name. Exact matches have priority over those that differ in case."""
    exact = [one for one in candidates if name in (one.name, one.key)]
    matching = exact or [one for one in candidates if one.is_called(name)]
    return list({one.id: one for one in matching}.values())


def choose(title: str, candidates: Sequence[Choice], name: str, parameter: str) -> Choice:
    """The object with this name.

    Raises:
        InvalidArgumentsError
    """
    match _with_name(candidates, name):
        case [only]:
            return only
        case []:
            similar = [one for one in candidates if name.casefold() in one.name.casefold()]
            raise refused(parameter, f"there is no {title} {shortened(name)}", similar or candidates)
        case several:
            raise refused(parameter, f"{shortened(name)} is the name of more than one {title}", several)


def refused(parameter: str, reason: str, candidates: Sequence[Choice]) -> InvalidArgumentsError:
    """The error for a name that cannot be used, with the valid ones."""
    names = ", ".join(str(one) for one in candidates[:_MOST_LISTED])
    more = f", … ({len(candidates)} in all)" if len(candidates) > _MOST_LISTED else ""
    expected = f"one of {names}{more}" if names else "an id"
    return InvalidArgumentsError(problems=[rejected([parameter], reason, expected)])


async def choices(
    ctx: Context, kind: Kind, project: int | str = "", *, enough: Callable[[Sequence[Choice]], bool]
) -> list[Choice]:
    """All objects of a kind, from the cache if that is `enough`: there may be new ones."""

    async def fetch() -> list[Choice]:
        if kind.included and project:
            return choices_of(await _of_project(ctx, kind, project))
        return [choice for page in await _pages(ctx, kind, project) for choice in choices_of(page)]

    answer: list[Choice] = await cached_answer(ctx, f"{kind.title} {project}", _SECONDS, fetch, enough=enough)
    return answer


async def _of_project(ctx: Context, kind: Kind, project: int | str) -> list[Any]:
    """Objects that are read with the project, which may have activities of its own, with other ids."""
    response = await account.ask(
        ctx, "projects", project, operation=kind.operation, resource="Project", params={"include": kind.name}
    )
    return _list_of(response.get("project") if isinstance(response, dict) else None, kind.name)


async def _pages(ctx: Context, kind: Kind, project: int | str) -> list[list[Any]]:
    """All pages of a list. Lists without pagination have only one, and no `limit`."""
    path = [str(project) if part == "%s" else part for part in kind.path]
    pages: list[list[Any]] = []
    total = _PAGE
    while len(pages) < _MOST_PAGES and len(pages) * _PAGE < total:
        response = await account.ask(
            ctx,
            *path,
            operation=kind.operation,
            resource="Project" if project else "",
            resource_id=project,
            params={"limit": _PAGE, "offset": len(pages) * _PAGE, "status": kind.status},
        )
        pages.append(_list_of(response, kind.name))
        total_count = response.get("total_count") if isinstance(response, dict) and "limit" in response else None
        total = total_count if isinstance(total_count, int) else 0
    return pages


def _list_of(response: Any, name: str) -> list[Any]:
    things = response.get(name) if isinstance(response, dict) else None
    return things if isinstance(things, list) else []


def choices_of(entries: Sequence[Any]) -> list[Choice]:
    objects = [one for one in entries if isinstance(one, dict)]
    # Memberships contain a user or a group.
    things = [part_of(one, "user") or part_of(one, "group") or one for one in objects]
    return [
        Choice(thing["id"], str(thing["name"]), str(thing.get("identifier") or ""))
        for thing in things
        if isinstance(thing.get("id"), int) and "name" in thing
    ]
