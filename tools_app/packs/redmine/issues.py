"""Issues. https://www.redmine.org/projects/redmine/wiki/Rest_Issues"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from tools_app.packs.redmine import account, custom_fields, filters, lookups, notes, pack, shapes, writing
from tools_app.packs.redmine.arguments import (
    CustomValues,
    Day,
    Id,
    IssueInclude,
    Name,
    is_id,
    without_none,
)
from tools_app.packs.redmine.filters import Filters
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.signatures import Says
from tools_app.sdk.tool import Tool

_INCLUDED: Final = {
    "notes": "journals",
    "private_notes": "journals",
    "watcher_user_ids": "watchers",
    "status_id": "allowed_statuses",
}
ISSUE: Final = writing.Noun("issue", "issues", "Issue", shapes.ISSUE, included=_INCLUDED)
_TAGS: Final = ("redmine", "issues")
Cleared = Literal[
    "assigned_to_id",
    "category_id",
    "fixed_version_id",
    "parent_issue_id",
    "start_date",
    "due_date",
    "estimated_hours",
    "description",
]


@pack.add
class ListIssues(Tool):
    """List issues, newest first; by default only open ones.
    Also filters by custom fields: cf_<id>. Shorter with _fields, like ["/issues/*/id", "/issues/*/subject"]."""

    name = "list_issues"
    title = "List issues"
    category = "issues"
    tags = _TAGS
    keywords = (
        "tickets, tasks, bugs, open, overdue, assigned to me, nobody has taken, to do",
        "チケット一覧 自分のタスク 期限切れ 未対応 担当なし 洗い出す",
    )
    hints = Hints(read_only=True)
    examples = (
        Example(
            "My open issues, the most urgent first",
            {"assigned_to_id": "me", "sort": "priority:desc,due_date"},
            {"issues": "<array>", "total_count": "<integer>"},
        ),
        Example(
            "What was closed in January",
            {"status_id": "closed", "updated_on": "><2026-01-01|2026-01-31"},
            {"issues": "<array>", "total_count": "<integer>"},
        ),
    )
    output_schema = shapes.page("issues", shapes.LISTED_ISSUE)
    Arguments: ClassVar[Any] = Filters

    async def run(self, ctx: Context, arguments: Filters) -> dict[str, Any]:
        params = await filters.resolve(ctx, arguments)
        answer = await account.page(
            ctx,
            "issues",
            name="issues",
            shape=shapes.LISTED_ISSUE,
            operation="list issues",
            params=params,
            **filters.about(params),
        )
        await filters.check_used(ctx, params, answer["issues"])
        return answer


@pack.tool(
    title="Get issue",
    category="issues",
    tags=_TAGS,
    keywords=(
        "show a ticket, comments, discussion, attachments, history, what was said",
        "チケットを見る やりとり 経緯 コメント 添付ファイル",
    ),
    aliases=("show_issue",),
    hints=Hints(read_only=True),
    examples=[Example("An issue with its comments and history", {"id": 1, "include": "journals"}, shown_only=True)],
    output_schema=shapes.one("issue", shapes.ISSUE),
)
async def get_issue(
    ctx: Context, id: Annotated[Id, "Issue number."], include: IssueInclude | None = None
) -> dict[str, Any]:
    """Get an issue; include=journals adds comments and history."""
    issue = await account.one(
        ctx, "issues", id, name="issue", operation="get issue", resource="Issue", include=include or ""
    )
    return {"issue": ISSUE.shown(issue)}


def _or_clear(name: str, expected: str) -> Says:
    """The error for null and for empty text, with which agents try to clear a field."""
    instruction = f'to empty the field, use update_issue with clear: ["{name}"]'
    return Says(f"Invalid value for parameter {name}: expected {expected}; {instruction}")


_Description = Annotated[str, Field(max_length=200_000), _or_clear("description", "text of at most 200,000 characters")]
_Hours = Annotated[float, Field(ge=0, le=100_000), _or_clear("estimated_hours", "a number from 0 to 100,000")]
_NAME: Final = "an id or a name"
_DAY: Final = "a date, YYYY-MM-DD"


class Fields(BaseModel):
    """Writable fields of an issue."""

    model_config = ConfigDict(extra="forbid")

    tracker_id: Name | None = Field(None, description="Id or name, like Bug.")
    status_id: Name | None = Field(None, description="Id or name.")
    priority_id: Name | None = Field(None, description="Id or name.")
    description: _Description | None = Field(None, description="In this Redmine's markup.")
    category_id: Annotated[Name, _or_clear("category_id", _NAME)] | None = Field(None, description="Id or name.")
    fixed_version_id: Annotated[Name, _or_clear("fixed_version_id", _NAME)] | None = Field(
        None, description="Target version: id or name."
    )
    assigned_to_id: Annotated[Name, _or_clear("assigned_to_id", "me, an id or a name")] | None = Field(
        None, description="me, or id or name of a project member."
    )
    parent_issue_id: Annotated[Id, _or_clear("parent_issue_id", "an id")] | None = Field(
        None, description="Parent issue."
    )
    custom_fields: CustomValues | None = None
    is_private: bool | None = Field(None, description="Private issue.")
    estimated_hours: _Hours | None = Field(None, description="Like 1.5.")
    start_date: Annotated[Day, _or_clear("start_date", _DAY)] | None = Field(None, description="YYYY-MM-DD.")
    due_date: Annotated[Day, _or_clear("due_date", _DAY)] | None = Field(None, description="YYYY-MM-DD.")
    done_ratio: int | None = Field(None, ge=0, le=100, description="Progress in percent.")


class NewIssue(Fields):
    project_id: Name = Field(description="Id, identifier or name.")
    subject: str = Field(min_length=1, max_length=255, pattern=r"\S", description="In one line.")
    watcher_user_ids: list[Name] | None = Field(
        None, max_length=100, description="Watchers: me, or ids or names of project members."
    )


@pack.add
class CreateIssue(Tool):
    """Create an issue. Reports what Redmine ignored."""

    name = "create_issue"
    title = "Create issue"
    category = "issues"
    tags = (*_TAGS, "write")
    keywords = (
        "file a bug, report a problem, defect, new ticket, raise, does not work, request",
        "起票 不具合を報告 バグ報告 要望 問題 効かない",
    )
    hints = Hints(destructive=False)
    examples = (
        Example(
            "A bug", {"project_id": "website", "subject": "Login fails on Safari", "tracker_id": "Bug"}, shown_only=True
        ),
    )
    output_schema = shapes.written("issue")
    Arguments: ClassVar[Any] = NewIssue

    async def run(self, ctx: Context, arguments: NewIssue) -> dict[str, Any]:
        project = await lookups.project_key(ctx, arguments.project_id)
        payload = await payload_of(ctx, arguments, project)
        if arguments.watcher_user_ids is not None:
            payload["watcher_user_ids"] = [
                await lookups.user_id(ctx, name, "watcher_user_ids", project) for name in arguments.watcher_user_ids
            ]
        return await writing.create(ctx, ISSUE, {"project_id": project} | payload)


class IssueChanges(Fields):
    id: Id = Field(description="Issue number.")
    project_id: Name | None = Field(None, description="Move to: id, identifier or name.")
    subject: str | None = Field(None, min_length=1, max_length=255, pattern=r"\S", description="In one line.")
    notes: str | None = Field(None, min_length=1, max_length=200_000, description="A comment.")
    private_notes: bool | None = Field(None, description="Whether the comment is private.")
    clear: list[Cleared] | None = Field(None, min_length=1, max_length=8, description="Fields to empty.")
    quote_note_id: Id | None = Field(None, description="Quote this comment above notes.")


@pack.add
class UpdateIssue(Tool):
    """Change an issue or add a comment (notes). Answers what changed.
    Reports what Redmine ignored, as for lack of permission."""

    name = "update_issue"
    title = "Update issue"
    category = "issues"
    tags = (*_TAGS, "write")
    keywords = (
        "close a ticket, mark as done, comment, reassign, hand over, deadline, move, postpone",
        "チケットを閉じる 完了にする コメント 担当を変える 引き継ぐ 締め切りを延ばす",
    )
    hints = Hints(destructive=True)
    examples = (
        Example("Resolve with a comment", {"id": 1, "status_id": "Resolved", "notes": "Fixed in 1.2"}, shown_only=True),
        Example("Clear a date", {"id": 1, "clear": ["due_date"]}, shown_only=True),
    )
    output_schema = shapes.written("issue")
    Arguments: ClassVar[Any] = IssueChanges

    async def run(self, ctx: Context, arguments: IssueChanges) -> dict[str, Any]:
        return await change(ctx, arguments)


async def change(ctx: Context, arguments: IssueChanges) -> dict[str, Any]:
    """Change an issue, and answer what changed."""
    before: dict[str, Any] | None = None
    if _needs_reading(arguments):
        before = await account.one(ctx, "issues", arguments.id, name="issue", operation="get issue", resource="Issue")
    project: int | str = shapes.part_of(before, "project").get("id", "")
    if arguments.project_id is not None:
        project = await lookups.project_number(ctx, arguments.project_id)
    payload = await payload_of(ctx, arguments, project, shapes.parts_of(before, "custom_fields"))
    if arguments.project_id is not None:
        payload["project_id"] = project
    payload |= dict.fromkeys(arguments.clear or (), "")
    if arguments.quote_note_id is not None:
        quoted = await notes.comment(ctx, arguments.id, arguments.quote_note_id, "quote_note_id")
        payload["notes"] = notes.quoted(quoted, arguments.notes)
        # An answer to a private comment is private, unless the caller says otherwise.
        if quoted.get("private_notes") is True:
            payload.setdefault("private_notes", True)
    if not payload.keys() - {"private_notes"}:
        message = "Nothing to change: give at least one field besides id"
        raise InvalidArgumentsError(problems=[Problem("", message, "a field to change")])
    return await writing.update(
        ctx, ISSUE, arguments.id, payload, before=before if payload.keys() & _TAKES_ALONG else None
    )


# With a new project or tracker an issue loses fields that these do not have.
_TAKES_ALONG: Final = frozenset({"project_id", "tracker_id"})


def _needs_reading(arguments: IssueChanges) -> bool:
    """Whether the issue must be read first: for fields that it may lose, or for the project of names."""
    # A version's name may consist of digits.
    if any(value is not None for value in (arguments.project_id, arguments.tracker_id, arguments.fixed_version_id)):
        return True
    of_a_project = [arguments.category_id, arguments.assigned_to_id]
    of_a_project += [value.key for value in arguments.custom_fields or ()]
    return any(not is_id(value) for value in of_a_project if value not in (None, "me"))


# Arguments of tools, that are no fields of an issue.
_OF_OTHERS: Final = frozenset({"quote_note_id", "link", "attachments", "subtasks"})


async def payload_of(
    ctx: Context, arguments: Fields, project: int | str, own: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The fields for Redmine. `own` are the custom fields of the issue."""
    payload = without_none(
        arguments.model_dump(exclude={"id", "project_id", "clear", "custom_fields", "watcher_user_ids"} | _OF_OTHERS)
    )
    if arguments.custom_fields is not None:
        payload["custom_fields"] = await custom_fields.to_send(ctx, arguments.custom_fields, "issue", project, own)
    for name, kind in _NAMED_FIELDS.items():
        if name not in payload:
            continue
        if kind is lookups.MEMBER and payload[name] == "me":
            payload[name] = await lookups.user_id(ctx, "me", name, project)
        else:
            payload[name] = await lookups.id_of(ctx, kind, payload[name], name, project)
    return payload


_NAMED_FIELDS: Final = {
    "tracker_id": lookups.TRACKER,
    "status_id": lookups.STATUS,
    "priority_id": lookups.PRIORITY,
    "category_id": lookups.CATEGORY,
    "fixed_version_id": lookups.VERSION,
    "assigned_to_id": lookups.MEMBER,
}


@pack.tool(
    title="Delete issue",
    category="issues",
    tags=(*_TAGS, "write"),
    keywords=("remove a ticket completely, duplicate, erase", "チケットを消す 重複 完全に削除"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Delete for good", {"id": 1}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_issue(ctx: Context, id: Annotated[Id, "Issue number."]) -> dict[str, Any]:
    """Delete an issue for good, with subtasks and logged time.
    Better close it (update_issue)."""
    return await writing.delete(ctx, ISSUE, id)
