"""Relations between issues. https://www.redmine.org/projects/redmine/wiki/Rest_IssueRelations"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tools_app.packs.redmine import identity, pack, reasons, shapes, writing
from tools_app.packs.redmine.arguments import Id, without_none
from tools_app.sdk.context import Context
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

RELATION: Final = writing.Noun("relation", "relations", "Relation", shapes.RELATION)
_TAGS: Final = ("redmine", "issues", "write")
_Type = Literal[
    "relates",
    "duplicates",
    "duplicated",
    "blocks",
    "blocked",
    "precedes",
    "follows",
    "copied_to",
    "copied_from",
]


@pack.tool(
    title="Create issue relation",
    category="issues",
    tags=_TAGS,
    keywords=("link two tickets, blocks, duplicate of, depends on, related", "チケットを関連付ける ブロック 重複 依存"),
    hints=Hints(destructive=False, idempotent=True),
    examples=[
        Example(
            "7 cannot be closed before 5",
            {"issue_id": 5, "relation_type": "blocks", "related_issue_id": 7},
            shown_only=True,
        )
    ],
    output_schema=shapes.written("relation"),
)
async def create_issue_relation(
    ctx: Context,
    issue_id: Annotated[Id, "Issue number."],
    related_issue_id: Annotated[Id, "The other issue."],
    relation_type: Annotated[_Type, "Read as: issue_id blocks related_issue_id."] = "relates",
    delay: Annotated[int | None, Field(ge=-3650, le=3650), "Days, for precedes and follows."] = None,
) -> dict[str, Any]:
    """Relate two issues. precedes and follows move dates of the later one."""
    await identity.check(ctx)
    operation = "create relation"
    relation = {"issue_to_id": related_issue_id, "relation_type": relation_type, "delay": delay}
    async with reasons.with_reasons(ctx, operation, issue=issue_id):
        path, body = ("issues", issue_id, "relations"), {"relation": without_none(relation)}
        response = await ctx.http.post(*path, operation=operation, resource="Issue", json=body)
    # Redmine turns it round if that is how it stores this type.
    created = shapes.part_of(response.data, "relation")
    message = f"Issue #{issue_id} {relation_type} #{related_issue_id}: the relation was successfully created."
    if not created:
        return writing.done(message, warnings=[response.warning or "Redmine did not return its id."])
    return writing.done(message, relation=RELATION.shown(created))


@pack.tool(
    title="Delete issue relation",
    category="issues",
    tags=_TAGS,
    keywords=("unlink tickets, no longer blocks, wrong link", "関連を外す 関連付けを消す"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Unlink", {"id": 1}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_issue_relation(
    ctx: Context, id: Annotated[Id, "Relation id, from get_issue with include=relations."]
) -> dict[str, Any]:
    """Delete a relation between issues."""
    return await writing.delete(ctx, RELATION, id)
