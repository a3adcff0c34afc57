"""Comments of issues: editing and quoting. https://www.redmine.org/projects/redmine/wiki/Rest_Journals"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, identity, pack, reasons, shapes, writing
from tools_app.packs.redmine.arguments import Id, without_none
from tools_app.sdk.checker import rejected
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, UpstreamValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints


@pack.tool(
    title="Edit issue note",
    category="issues",
    tags=("redmine", "issues", "write"),
    keywords=("correct a comment, typo, rewrite what I said, make private", "コメントを直す 訂正 書き間違い 非公開"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Correct it", {"issue_id": 1, "note_id": 7, "notes": "Fixed in 1.3"}, shown_only=True)],
    output_schema=shapes.written("journal"),
)
async def edit_issue_note(
    ctx: Context,
    issue_id: Annotated[Id, "Issue number."],
    note_id: Annotated[Id, "Id of the comment, from get_issue with include=journals."],
    notes: Annotated[str, Field(min_length=1, max_length=200_000, pattern=r"\S"), "The whole new text."],
    private_notes: Annotated[bool | None, "Whether it is private."] = None,
) -> dict[str, Any]:
    """Replace the text of a comment; Redmine keeps no older one. Redmine 5.0 or later."""
    await identity.check(ctx)
    await comment(ctx, issue_id, note_id, "note_id")
    operation = "edit note"
    changes = without_none({"notes": notes, "private_notes": private_notes})
    async with reasons.with_reasons(ctx, operation, issue=issue_id):
        await ctx.http.put("journals", note_id, operation=operation, resource="Note", json={"journal": changes})
    edited = await comment(ctx, issue_id, note_id, "note_id")
    if not writing.same(edited.get("notes"), notes):
        raise UpstreamValidationError(
            f"Note #{note_id} of issue #{issue_id} was not changed: Redmine accepted the request but ignored notes"
        )
    shown = shapes.shown(JOURNAL, {key: edited[key] for key in ("id", "private_notes", "notes") if key in edited})
    message = f"Note #{note_id} of issue #{issue_id} was successfully changed."
    if private_notes is not None and edited.get("private_notes", False) is not private_notes:
        warning = "private_notes: requires the permission “Set notes as private” in this project."
        return writing.done(message, warnings=[warning], partly=True, journal=shown)
    return writing.done(message, journal=shown)


JOURNAL: Final = shapes.thing(id=shapes.COUNT, private_notes=shapes.FLAG, notes=shapes.TEXT)


async def comment(ctx: Context, issue_id: int, number: int, parameter: str) -> dict[str, Any]:
    """A comment of an issue.

    Raises:
        InvalidArgumentsError: the issue has none with this id, or this account cannot see it.
    """
    issue = await account.one(
        ctx, "issues", issue_id, name="issue", operation="get issue", resource="Issue", include="journals"
    )
    commented = [one for one in shapes.parts_of(issue, "journals") if one.get("notes")]
    for one in commented:
        if one.get("id") == number:
            return one
    latest = ", ".join(str(one.get("id")) for one in commented[-10:])
    reason = f"issue #{issue_id} has no comment with this id"
    raise InvalidArgumentsError(problems=[rejected([parameter], reason, f"one of {latest}" if latest else "")])


def quoted(note: dict[str, Any], answer: str | None) -> str:
    """A comment as a quotation, and the answer to it: as Redmine's own button writes it, in both of its markups."""
    author = shapes.part_of(note, "user").get("name", "Somebody")
    lines = "\n".join(f"> {line}".rstrip() for line in str(note.get("notes", "")).strip().splitlines())
    return "\n\n".join(part for part in (f"{author} wrote:\n{lines}", answer) if part)
