"""Counts and sums of issues and spent time, which Redmine's API does not have: all pages are read and added up here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from tools_app.packs.redmine import account, filters, lookups, pack, projects, shapes
from tools_app.packs.redmine.arguments import Day, Id, Name, without_none
from tools_app.packs.redmine.filters import Selection
from tools_app.packs.redmine.shapes import part_of, parts_of
from tools_app.sdk import heavy
from tools_app.sdk.checker import rejected
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, InvalidArgumentsError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.tool import Tool

_PAGE: Final = 100
_MOST_PAGES: Final = 30
# The time that the last page and the sums may need.
_SECONDS_LEFT: Final = 4.0
_DAYS: Final = 30
_READS: Final = Hints(read_only=True)
_NOTHING: Final = "none"
# Parts of an issue that have a name, by the words of arguments.
_PARTS: Final = {
    "project": "project",
    "tracker": "tracker",
    "status": "status",
    "priority": "priority",
    "author": "author",
    "assigned_to": "assigned_to",
    "category": "category",
    "version": "fixed_version",
}
_GROUP: Final[dict[str, Any]] = {"type": "object", "description": "The names of the group."}

Thing = Mapping[str, Any]
Key = Callable[[Thing], str]


class IssueGroups(Selection):
    group_by: list[Name] = Field(
        min_length=1,
        max_length=2,
        description="One or two of project, tracker, status, priority, author, assigned_to, category, version, or a "
        "custom field's name.",
    )


@pack.add
class SummarizeIssues(Tool):
    """Count issues by status, person, version and so on, with hours.
    Filters as list_issues; by default only open ones, status_id=* for all."""

    name = "summarize_issues"
    title = "Summarize issues"
    category = "issues"
    tags = ("redmine", "issues")
    keywords = (
        "how many tickets, statistics, workload, who has how much, distribution, report, count",
        "チケットの集計 何件 担当別 件数 状況 統計",
    )
    hints = _READS
    examples = (
        Example(
            "Who has how many open issues", {"group_by": ["assigned_to"], "project_id": "website"}, shown_only=True
        ),
    )
    output_schema = shapes.page(
        "groups",
        shapes.thing(
            by=_GROUP,
            issues=shapes.COUNT,
            open=shapes.COUNT,
            estimated_hours=shapes.NUMBER,
            spent_hours=shapes.NUMBER,
        ),
        complete=shapes.FLAG,
        message=shapes.TEXT,
    )
    Arguments: ClassVar[Any] = IssueGroups

    async def run(self, ctx: Context, arguments: IssueGroups) -> dict[str, Any]:
        params = await filters.resolve(ctx, arguments)
        params.pop("group_by")
        issues, total = await _all_issues(ctx, params)
        await filters.check_used(ctx, params, issues)
        keys = {name: _key_of(name, issues) for name in arguments.group_by}
        groups = await heavy.by_size(issues, _grouped, issues, keys, _counted)
        return {"groups": groups, "total_count": total} | _completeness(len(issues), total)


@pack.tool(
    title="Summarize time entries",
    category="time entries",
    tags=("redmine", "time"),
    keywords=(
        "total hours, timesheet by person, hours by version, by week, by month, report, effort",
        "工数の集計 合計時間 人別 月別 バージョン別 稼働",
    ),
    hints=_READS,
    examples=[
        Example(
            "Hours of each person in November",
            {"group_by": ["user"], "from": "2026-11-01", "to": "2026-11-30"},
            {"groups": "<array>", "total_hours": "<number>"},
        )
    ],
    output_schema=shapes.page(
        "groups",
        shapes.thing(by=_GROUP, hours=shapes.NUMBER, entries=shapes.COUNT),
        total_hours=shapes.NUMBER,
        complete=shapes.FLAG,
        message=shapes.TEXT,
    ),
)
async def summarize_time_entries(
    ctx: Context,
    group_by: Annotated[
        list[
            Literal[
                "user",
                "project",
                "activity",
                "issue",
                "version",
                "status",
                "tracker",
                "category",
                "day",
                "week",
                "month",
            ]
        ],
        Field(min_length=1, max_length=2, description="One or two."),
    ],
    user_id: Annotated[Name | None, "me, id, or a name with project_id."] = None,
    project_id: Annotated[Name | None, "Id, identifier or name."] = None,
    issue_id: Annotated[Id | None, "Only time on this issue."] = None,
    from_: Annotated[Day | None, Field(alias="from"), "From this day: YYYY-MM-DD."] = None,
    to: Annotated[Day | None, "Up to this day: YYYY-MM-DD."] = None,
) -> dict[str, Any]:
    """Add up spent hours by person, project, version, month and so on."""
    project = await lookups.project_key(ctx, project_id) if project_id is not None else None
    user = user_id if user_id in (None, "me") else await lookups.user_id(ctx, user_id, "user_id", project or "")
    params = {"user_id": user, "project_id": project, "issue_id": issue_id, "from": from_, "to": to}
    entries, total = await _all_entries(ctx, without_none(params))
    issues = await _issues_of(ctx, entries) if set(group_by) & {"version", "status", "tracker", "category"} else {}
    keys: dict[str, Key] = {name: _time_key(name, issues) for name in group_by}
    groups = await heavy.by_size(entries, _grouped, entries, keys, _summed)
    answer = {"groups": groups, "total_count": total, "total_hours": _hours(entries, "hours")}
    return answer | _completeness(len(entries), total)


@pack.tool(
    title="Summarize project",
    category="projects",
    tags=("redmine", "projects"),
    keywords=(
        "how is it going, progress, status report, overdue, health, workload",
        "進捗 状況報告 遅れ 案件の状態 概況",
    ),
    hints=_READS,
    examples=[Example("How a project is going", {"id": "website"}, shown_only=True)],
    output_schema=shapes.one(
        "project",
        shapes.thing(
            id=shapes.COUNT,
            name=shapes.TEXT,
            identifier=shapes.TEXT,
            status=shapes.TEXT,
            issues=shapes.COUNT,
            open=shapes.COUNT,
            overdue=shapes.COUNT,
            unassigned=shapes.COUNT,
            estimated_hours=shapes.NUMBER,
            spent_hours=shapes.NUMBER,
            last_change=shapes.TEXT,
            statuses=shapes.many(shapes.thing(name=shapes.TEXT, issues=shapes.COUNT)),
            trackers=shapes.many(shapes.thing(name=shapes.TEXT, issues=shapes.COUNT, open=shapes.COUNT)),
            users=shapes.many(
                shapes.thing(
                    name=shapes.TEXT, open=shapes.COUNT, overdue=shapes.COUNT, hours_last_30_days=shapes.NUMBER
                )
            ),
            versions=shapes.many(
                shapes.thing(
                    id=shapes.COUNT,
                    name=shapes.TEXT,
                    status=shapes.TEXT,
                    due_date=shapes.TEXT,
                    issues=shapes.COUNT,
                    open=shapes.COUNT,
                )
            ),
            complete=shapes.FLAG,
            message=shapes.TEXT,
        ),
    ),
)
async def summarize_project(
    ctx: Context, id: Annotated[Name, Field(description="Id, identifier or name.")]
) -> dict[str, Any]:
    """Summarize a project: open and overdue issues, people, versions, recent hours.
    With subprojects, as Redmine lists them."""
    key = await lookups.project_key(ctx, id, "id")
    project = projects.PROJECT.shown(
        await account.one(ctx, "projects", key, name="project", operation="get project", resource="Project")
    )
    issues, total = await _all_issues(ctx, {"project_id": key, "status_id": "*"})
    versions, _ = await account.many(
        ctx, "projects", key, "versions", name="versions", operation="list versions", resource="Project"
    )
    today = datetime.now(UTC).date()
    message = ""
    try:
        first = (today - timedelta(days=_DAYS)).isoformat()
        entries, _ = await _all_entries(ctx, {"project_id": key, "from": first})
    except ApiError as error:
        if error.context.get("statusCode") != 403:
            raise
        entries, message = [], "This account may not see spent time."
    summary = await heavy.by_size(issues, _of_project, issues, versions, entries, today)
    about = {name: project[name] for name in ("id", "name", "identifier", "status") if name in project}
    completeness = _completeness(len(issues), total)
    message = " ".join(part for part in (completeness.get("message", ""), message) if part)
    return {"project": about | summary | completeness | ({"message": message} if message else {})}


def _of_project(
    issues: Sequence[Thing], versions: Sequence[Thing], entries: Sequence[Thing], today: date
) -> dict[str, Any]:
    by_name = {name: _named_part(part) for name, part in _PARTS.items()}
    open_issues = [issue for issue in issues if _is_open(issue)]
    late = [issue for issue in open_issues if str(issue.get("due_date") or "9") < today.isoformat()]
    assigned, overdue = _by(open_issues, by_name["assigned_to"]), _by(late, by_name["assigned_to"])
    hours = {name: _hours(own, "hours") for name, own in _by(entries, _named_part("user")).items()}
    people = sorted({*assigned, *hours} - {_NOTHING}, key=lambda name: (-len(assigned.get(name, ())), name))
    by_version: dict[Any, list[Thing]] = {}
    for issue in issues:
        by_version.setdefault(part_of(issue, "fixed_version").get("id"), []).append(issue)
    return {
        "issues": len(issues),
        "open": len(open_issues),
        "overdue": len(late),
        "unassigned": len(assigned.get(_NOTHING, ())),
        "estimated_hours": _hours(issues, "estimated_hours"),
        "spent_hours": _hours(issues, "spent_hours"),
        **({"last_change": max(str(issue.get("updated_on", "")) for issue in issues)} if issues else {}),
        "statuses": [{"name": name, "issues": len(own)} for name, own in _largest(_by(issues, by_name["status"]))],
        "trackers": [
            {"name": name, "issues": len(own), "open": sum(map(_is_open, own))}
            for name, own in _largest(_by(issues, by_name["tracker"]))
        ],
        "users": [
            {
                "name": name,
                "open": len(assigned.get(name, ())),
                "overdue": len(overdue.get(name, ())),
                "hours_last_30_days": hours.get(name, 0),
            }
            for name in people
        ],
        "versions": [
            shapes.shown(shapes.VERSION, {key: version.get(key) for key in ("id", "name", "status", "due_date")})
            | {"issues": len(own), "open": sum(map(_is_open, own))}
            for version in versions
            for own in [by_version.get(version.get("id"), [])]
        ],
    }


# ---- all pages


async def _all_issues(ctx: Context, params: Mapping[str, Any]) -> tuple[list[Thing], int]:
    about = filters.about(params)
    return await _all(ctx, "issues", {**params, "sort": "id"}, operation="list issues", **about)


async def _all_entries(ctx: Context, params: Mapping[str, Any]) -> tuple[list[Thing], int]:
    about = {"resource": "Project", "resource_id": str(params.get("project_id", ""))}
    return await _all(ctx, "time_entries", params, operation="list time entries", **about)


async def _all(
    ctx: Context, name: str, params: Mapping[str, Any], *, operation: str, resource: str, resource_id: str
) -> tuple[list[Thing], int]:
    """All objects of a list, as far as there is time, and how many there are."""
    found: dict[Any, Thing] = {}
    for number in range(_MOST_PAGES):
        page, counts = await account.many(
            ctx,
            name,
            name=name,
            operation=operation,
            resource=resource,
            resource_id=resource_id,
            params={**params, "limit": _PAGE, "offset": number * _PAGE},
        )
        found |= {one.get("id"): one for one in page}
        total: int = counts["total_count"]
        ctx.progress(min((number + 1) * _PAGE, total), total)
        if not page or (number + 1) * _PAGE >= total or ctx.remaining() < _SECONDS_LEFT:
            break
    return list(found.values()), total


async def _issues_of(ctx: Context, entries: Sequence[Thing]) -> dict[Any, Thing]:
    """The issues of time entries: an entry has nothing but the number."""
    numbers = list(dict.fromkeys(part_of(entry, "issue").get("id") for entry in entries if "issue" in entry))
    issues: dict[Any, Thing] = {}
    for start in range(0, len(numbers), _PAGE):
        asked = ",".join(str(number) for number in numbers[start : start + _PAGE])
        page, _ = await account.many(
            ctx,
            "issues",
            name="issues",
            operation="list issues",
            params={"issue_id": asked, "status_id": "*", "limit": _PAGE},
        )
        issues |= {issue.get("id"): issue for issue in page}
    return issues


def _completeness(read: int, total: int) -> dict[str, Any]:
    if read >= total:
        return {"complete": True}
    message = f"Only {read:,} of {total:,} were read. Narrow the filters, or ask for shorter periods one by one."
    return {"complete": False, "message": message}


# ---- groups


def _key_of(name: str, issues: Sequence[Thing]) -> Key:
    """What an issue is grouped by.

    Raises:
        InvalidArgumentsError: no issue has such a field.
    """
    if name in _PARTS:
        return _named_part(_PARTS[name])
    wanted = name.casefold()
    names = {str(field.get("name", "")): None for issue in issues for field in parts_of(issue, "custom_fields")}
    if issues and wanted not in map(str.casefold, names):
        expected = f"one of {', '.join([*_PARTS, *sorted(names)])}"
        raise InvalidArgumentsError(problems=[rejected(["group_by"], "the issues have no such field", expected)])

    def value_of(issue: Thing) -> str:
        for field in parts_of(issue, "custom_fields"):
            if str(field.get("name", "")).casefold() == wanted:
                value = field.get("value")
                return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        return ""

    return lambda issue: value_of(issue) or _NOTHING


def _named_part(name: str) -> Key:
    return lambda thing: str(part_of(thing, name).get("name") or _NOTHING)


def _time_key(name: str, issues: Mapping[Any, Thing]) -> Key:
    """What a time entry is grouped by."""
    match name:
        case "user" | "project" | "activity":
            return _named_part(name)
        case "issue":
            return lambda entry: f"#{part_of(entry, 'issue')['id']}" if part_of(entry, "issue") else _NOTHING
        case "day":
            return lambda entry: str(entry.get("spent_on", ""))
        case "week":
            return lambda entry: _week(str(entry.get("spent_on", "")))
        case "month":
            return lambda entry: str(entry.get("spent_on", ""))[:7]
    of_issue = _named_part(_PARTS[name])
    return lambda entry: of_issue(issues.get(part_of(entry, "issue").get("id"), {}))


def _week(day: str) -> str:
    try:
        year, week, _ = date.fromisoformat(day).isocalendar()
    except ValueError:
        return day
    return f"{year}-W{week:02}"


def _grouped(
    things: Sequence[Thing], keys: Mapping[str, Key], measured: Callable[[Sequence[Thing]], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Groups with their figures: the largest first, or in order of time."""
    groups = _by(things, lambda thing: tuple(key(thing) for key in keys.values()))
    in_time = [place for place, name in enumerate(keys) if name in ("day", "week", "month")]
    ordered = _largest(groups, lambda names: [names[place] for place in in_time])
    return [{"by": dict(zip(keys, names, strict=True))} | measured(own) for names, own in ordered]


def _by(things: Iterable[Thing], key: Callable[[Thing], Any]) -> dict[Any, list[Thing]]:
    groups: dict[Any, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def _largest(
    groups: Mapping[Any, list[Thing]], before: Callable[[Any], Any] = lambda names: 0
) -> list[tuple[Any, list[Thing]]]:
    return sorted(groups.items(), key=lambda group: (before(group[0]), -len(group[1]), group[0]))


def _counted(issues: Sequence[Thing]) -> dict[str, Any]:
    return {
        "issues": len(issues),
        "open": sum(map(_is_open, issues)),
        "estimated_hours": _hours(issues, "estimated_hours"),
        "spent_hours": _hours(issues, "spent_hours"),
    }


def _summed(entries: Sequence[Thing]) -> dict[str, Any]:
    return {"hours": _hours(entries, "hours"), "entries": len(entries)}


def _is_open(issue: Thing) -> bool:
    status = part_of(issue, "status")
    # Redmine before 5.0 does not say it of a status; `closed_on` stays when an issue is reopened.
    return status["is_closed"] is not True if "is_closed" in status else not issue.get("closed_on")


def _hours(things: Iterable[Thing], name: str) -> float:
    hours = (thing.get(name) for thing in things)
    return round(sum(value for value in hours if isinstance(value, int | float)), 2)
