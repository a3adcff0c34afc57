"""Searching everything at once. https://www.redmine.org/projects/redmine/wiki/Rest_Search"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tools_app.context import Context
from tools_app.examples import Example
from tools_app.packs.redmine import account, lookups, pack, shapes
from tools_app.packs.redmine.arguments import Limit, Name, Offset, given
from tools_app.tool import Hints


@pack.tool(
    title="Search Redmine",
    category="search",
    tags=("redmine", "search"),
    keywords=(
        "full text, wiki, documentation, news, documents, where is it written, look for words",
        "どこに書いた 手順 資料 ウィキ 全文検索 マニュアル",
    ),
    hints=Hints(read_only=True),
    examples=[
        Example(
            "Open issues about a login",
            {"query": "login", "open_issues": True},
            {"results": "<array>", "total_count": "<integer>"},
        )
    ],
    output_schema=shapes.page("results", shapes.FOUND),
)
async def search_redmine(
    ctx: Context,
    query: Annotated[str, Field(min_length=1, max_length=255, pattern=r"\S"), "Words that must all be there."],
    project_id: Annotated[Name | None, "Only in this project: id, identifier or name."] = None,
    titles_only: Annotated[bool, "Whether to look at titles only."] = False,
    open_issues: Annotated[bool, "Whether to leave closed issues out."] = False,
    limit: Limit = 25,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Search issues, wiki pages, news, documents, files and messages by words, the latest first."""
    path: tuple[str, ...] = ("search",)
    if project_id is not None:
        path = ("projects", await lookups.project_key(ctx, project_id), "search")
    params = {"q": query, "titles_only": titles_only or None, "open_issues": open_issues or None}
    return await account.page(
        ctx,
        *path,
        name="results",
        shape=shapes.FOUND,
        operation="search",
        resource="Project",
        resource_id=path[1] if project_id is not None else "",
        params=given({**params, "limit": limit, "offset": offset}),
    )
