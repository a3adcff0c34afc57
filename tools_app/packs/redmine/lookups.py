"""From names to ids: people say “Bug”, Redmine wants 1.

What Redmine has of each kind changes rarely and is asked for often: it is remembered for a minute, for each account.
A name that means nothing, or several things, is refused with what there is.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tools_app.context import Context
from tools_app.errors import InvalidArgumentsError, Problem, ToolError, shortened

_SECONDS: Final = 60.0
_MOST_KEPT: Final = 500
_MOST_TOLD: Final = 20
_PAGE: Final = 100
_MOST_PAGES: Final = 10


async def remembered(ctx: Context, what: str, seconds: float, ask: Callable[[], Awaitable[Any]]) -> Any:
    """An answer that is good for a while. What one account may see, another is not told.

    Two calls at once may both ask; nothing is wrong with that.
    """
    memory = ctx.http.memory
    kept = memory.get(what)
    if kept is not None and kept[0] > time.monotonic():
        return kept[1]
    found = await ask()
    memory.pop(what, None)
    while len(memory) >= _MOST_KEPT:
        del memory[next(iter(memory))]
    memory[what] = (time.monotonic() + seconds, found)
    return found


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

    @property
    def operation(self) -> str:
        return f"list {self.name.replace('_', ' ')}"


TRACKER: Final = Kind("tracker", "trackers", ("trackers",), replaced=True)
STATUS: Final = Kind("status", "issue_statuses", ("issue_statuses",), replaced=True)
PRIORITY: Final = Kind("priority", "issue_priorities", ("enumerations", "issue_priorities"), replaced=True)
ACTIVITY: Final = Kind("activity", "time_entry_activities", ("enumerations", "time_entry_activities"), included=True)
PROJECT: Final = Kind("project", "projects", ("projects",))
CATEGORY: Final = Kind("category", "issue_categories", ("projects", "%s", "issue_categories"), included=True)
VERSION: Final = Kind("version", "versions", ("projects", "%s", "versions"))
MEMBER: Final = Kind("member", "memberships", ("projects", "%s", "memberships"))


async def id_of(ctx: Context, kind: Kind, given: str, parameter: str, project: int | str = "") -> int:
    """The id of what a caller named, or gave the id of.

    Raises:
        InvalidArgumentsError: there is no such thing, or there are several.
    """
    number = int(given) if given.isascii() and given.isdecimal() else None
    if number is not None and not kind.replaced:
        return number
    try:
        found = await choices(ctx, kind, project)
    except ToolError:
        if number is None:
            raise
        return number
    matching = [one for one in found if one.id == number or (number is None and one.is_called(given))]
    if len({one.id for one in matching}) == 1:
        return matching[0].id
    if matching:
        raise refused(parameter, f"{shortened(given)} is the name of more than one {kind.title}", matching)
    alike = [one for one in found if given.casefold() in one.name.casefold()]
    raise refused(parameter, f"there is no {kind.title} {shortened(given)}", alike or found)


async def project_key(ctx: Context, given: str, parameter: str = "project_id") -> str:
    """A project as a path and a filter take it: by its id or identifier, where a caller may have said its name."""
    if given.isascii() and given.isdecimal():
        return given
    found = await choices(ctx, PROJECT)
    if any(one.key == given for one in found):
        return given
    if len(found) >= _PAGE * _MOST_PAGES and given == given.casefold() and " " not in given:
        return given  # one of those that did not fit: Redmine will know
    try:
        return str(await id_of(ctx, PROJECT, given, parameter))
    except InvalidArgumentsError:
        # Redmine lists no archived projects, and may know more under that identifier.
        if given == given.casefold() and given.isascii() and not any(map(str.isspace, given)):
            return given
        raise


def refused(parameter: str, why: str, candidates: Sequence[Choice]) -> InvalidArgumentsError:
    """A name that cannot be used, with those that can."""
    told = ", ".join(str(one) for one in candidates[:_MOST_TOLD])
    more = f", … ({len(candidates)} in all)" if len(candidates) > _MOST_TOLD else ""
    expected = f"one of {told}{more}" if told else "an id"
    problem = Problem(f"/{parameter}", f"Invalid value for parameter {parameter}: {why}; expected {expected}", expected)
    return InvalidArgumentsError(problems=[problem])


async def choices(ctx: Context, kind: Kind, project: int | str = "") -> list[Choice]:
    """What there is of a kind."""

    async def asked() -> list[Choice]:
        if kind.included and project:
            return _choices(await _of_project(ctx, kind, project))
        return [choice for listed in await _pages(ctx, kind, project) for choice in _choices(listed)]

    found: list[Choice] = await remembered(ctx, f"{kind.title} {project}", _SECONDS, asked)
    return found


def forget(ctx: Context) -> None:
    """After a change to what is looked up here."""
    ctx.http.memory.clear()


async def _of_project(ctx: Context, kind: Kind, project: int | str) -> list[Any]:
    """What is said with a project. It may have activities of its own, with other ids than those that all have."""
    found = await ctx.http.get(
        "projects", project, operation=kind.operation, resource="Project", params={"include": kind.name}
    )
    return _listed(found.get("project") if isinstance(found, dict) else None, kind.name)


async def _pages(ctx: Context, kind: Kind, project: int | str) -> list[list[Any]]:
    """All pages of a list. Those of a few things have one, and do not say so."""
    path = [str(project) if part == "%s" else part for part in kind.path]
    pages: list[list[Any]] = []
    total = _PAGE
    while len(pages) < _MOST_PAGES and len(pages) * _PAGE < total:
        found = await ctx.http.get(
            *path,
            operation=kind.operation,
            resource="Project" if project else "",
            resource_id=project,
            params={"limit": _PAGE, "offset": len(pages) * _PAGE},
        )
        pages.append(_listed(found, kind.name))
        declared = found.get("total_count") if isinstance(found, dict) and "limit" in found else None
        total = declared if isinstance(declared, int) else 0
    return pages


def _listed(found: Any, name: str) -> list[Any]:
    listed = found.get(name) if isinstance(found, dict) else None
    return listed if isinstance(listed, list) else []


def _choices(found: Sequence[Any]) -> list[Choice]:
    things = [one.get("user") or one.get("group") or one for one in found if isinstance(one, dict)]
    return [
        Choice(thing["id"], str(thing["name"]), str(thing.get("identifier") or ""))
        for thing in things
        if isinstance(thing.get("id"), int) and "name" in thing
    ]
