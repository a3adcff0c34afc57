"""One change of many issues, and copies of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pydantic import Field

from tools_app.packs.redmine import account, lookups, pack, shapes, writing
from tools_app.packs.redmine.arguments import Id, Name
from tools_app.packs.redmine.issues import ISSUE, Cleared, Fields, IssueChanges, change, payload_of
from tools_app.sdk.context import Context
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, NotFoundError, ToolError, UpstreamValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.tool import Tool

_TAGS: Final = ("redmine", "issues", "write")
_MOST_AT_ONCE: Final = 50
# The time that the last change and the answer may need.
_SECONDS_LEFT: Final = 4.0
_MOST_EXPLAINED: Final = 10
# What is wrong with one issue; other errors would meet the next one as well.
_OF_ONE_ISSUE: Final = (InvalidArgumentsError, NotFoundError, UpstreamValidationError)


class BulkChanges(Fields):
    ids: list[Id] = Field(min_length=1, max_length=_MOST_AT_ONCE, description="Issue numbers, at most 50.")
    project_id: Name | None = Field(None, description="Move to: id, identifier or name.")
    notes: str | None = Field(None, min_length=1, max_length=200_000, description="A comment for each.")
    private_notes: bool | None = Field(None, description="Whether the comment is private.")
    clear: list[Cleared] | None = Field(None, min_length=1, max_length=8, description="Fields to empty.")


@pack.add
class UpdateIssues(Tool):
    """Make the same change to several issues. Answers for each what happened:
    those before a failure stay changed."""

    name = "update_issues"
    title = "Update issues"
    category = "issues"
    tags = _TAGS
    keywords = (
        "bulk edit, many tickets at once, move all to the next release, close all, reassign all",
        "一括変更 まとめて まとめて閉じる 全部移す",
    )
    hints = Hints(destructive=True)
    examples = (Example("Postpone to the next version", {"ids": [1, 2], "fixed_version_id": "2.0"}, shown_only=True),)
    output_schema = shapes.one(
        "response",
        shapes.thing(
            status={"type": "string", "enum": ["success", "partial"]},
            message=shapes.TEXT,
            results=shapes.many(
                shapes.thing(
                    id=shapes.COUNT,
                    status={"type": "string", "enum": ["success", "partial", "failed", "skipped"]},
                    message=shapes.TEXT,
                    warnings=shapes.many(shapes.TEXT),
                )
            ),
        )
        | {"required": ["status", "message", "results"]},
    )
    Arguments: ClassVar[Any] = BulkChanges

    async def run(self, ctx: Context, arguments: BulkChanges) -> dict[str, Any]:
        ids = list(dict.fromkeys(arguments.ids))
        changes = arguments.model_dump(exclude={"ids"})
        results: list[dict[str, Any]] = []
        stopped = ""
        for done, number in enumerate(ids):
            ctx.progress(done, len(ids), f"issue #{number}")
            if not stopped and ctx.remaining() < _SECONDS_LEFT:
                stopped = "there was no time left"
            if stopped:
                results.append({"id": number, "status": "skipped", "message": f"Not tried: {stopped}."})
                continue
            try:
                response = (await change(ctx, IssueChanges.model_validate(changes | {"id": number})))["response"]
                told = {key: response[key] for key in ("status", "message", "warnings") if key in response}
                results.append({"id": number} | told)
            except ToolError as error:
                if not isinstance(error, _OF_ONE_ISSUE) and not _is_denied(error):
                    if not any(_is_changed(one) for one in results):
                        raise
                    stopped = f"after issue #{number} the rest would fail as well"
                if isinstance(error, InvalidArgumentsError) and not results:
                    raise
                results.append({"id": number, "status": "failed", "message": error.message})
        return _summed_up(results)


def _is_denied(error: ToolError) -> bool:
    return isinstance(error, ApiError) and error.context.get("statusCode") == 403


def _is_changed(result: dict[str, Any]) -> bool:
    return result["status"] in ("success", "partial")


def _summed_up(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The answer.

    Raises:
        UpstreamValidationError: nothing was changed.
    """
    changed = [one for one in results if _is_changed(one)]
    message = f"{len(changed)} of {len(results)} issues were changed."
    if not changed:
        causes = [f"#{one['id']}: {one['message']}" for one in results[:_MOST_EXPLAINED]]
        raise UpstreamValidationError(f"None of {len(results)} issues was changed", next_step="\n".join(causes))
    partly = any(one["status"] != "success" for one in results)
    return writing.done(message, partly=partly, results=list(results))


class IssueCopy(Fields):
    id: Id = Field(description="Issue to copy.")
    project_id: Name | None = Field(None, description="Copy to: id, identifier or name; default: the same.")
    subject: str | None = Field(None, min_length=1, max_length=255, pattern=r"\S", description="Default: the same.")
    clear: list[Cleared] | None = Field(None, min_length=1, max_length=8, description="Fields not to copy.")
    link: bool = Field(True, description="Relate the copy to the original.")
    attachments: bool = Field(True, description="Copy attachments.")
    subtasks: bool = Field(False, description="Copy subtasks.")


@pack.add
class CopyIssue(Tool):
    """Copy an issue with its fields, except those that you give.
    In another project, clear what it does not have."""

    name = "copy_issue"
    title = "Copy issue"
    category = "issues"
    tags = _TAGS
    keywords = ("duplicate a ticket, template, same again, clone", "チケットを複製 コピー ひな形 同じもの")
    hints = Hints(destructive=False)
    examples = (
        Example("Into another project", {"id": 1, "project_id": "shop", "clear": ["category_id"]}, shown_only=True),
    )
    output_schema = shapes.written("issue")
    Arguments: ClassVar[Any] = IssueCopy

    async def run(self, ctx: Context, arguments: IssueCopy) -> dict[str, Any]:
        original = await account.one(ctx, "issues", arguments.id, name="issue", operation="get issue", resource="Issue")
        project: int | str = shapes.part_of(original, "project").get("id", "")
        if arguments.project_id is not None:
            project = await lookups.project_number(ctx, arguments.project_id)
        payload = await payload_of(ctx, arguments, project, shapes.parts_of(original, "custom_fields"))
        payload |= {"project_id": project} | dict.fromkeys(arguments.clear or (), "")
        wanted = {
            "link_copy": arguments.link,
            "copy_attachments": arguments.attachments,
            "copy_subtasks": arguments.subtasks,
        }
        beside = {"copy_from": arguments.id} | {name: "1" for name, value in wanted.items() if value}
        made = await writing.create(ctx, ISSUE, payload, beside=beside, operation="copy issue")
        if arguments.link:
            await _check_link(ctx, made["response"])
        return made


async def _check_link(ctx: Context, response: dict[str, Any]) -> None:
    """Warn if the copy is not related to its original: Redmine has a setting for that."""
    number = response.get("issue", {}).get("id")
    if number is None:
        return
    try:
        copy = await account.one(
            ctx, "issues", number, name="issue", operation="get issue", resource="Issue", include="relations"
        )
    except ToolError:
        return
    if not any(one.get("relation_type") == "copied_to" for one in shapes.parts_of(copy, "relations")):
        warning = "link: this Redmine does not relate copies; create_issue_relation does."
        response["warnings"] = [*response.get("warnings", ()), warning]
