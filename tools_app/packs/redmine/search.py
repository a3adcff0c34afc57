"""Searching everything at once. https://www.redmine.org/projects/redmine/wiki/Rest_Search"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, lookups, pack, shapes
from tools_app.packs.redmine.arguments import Limit, Name, Offset, given
from tools_app.sdk.context import Context
from tools_app.sdk.errors import shortened
from tools_app.sdk.examples import Example
from tools_app.sdk.tool import Hints

# As Redmine takes a query apart: words, and several words within quotes, of which it looks for the first five.
_WORD: Final = re.compile(r'"([^"]+)"|(\S+)')
# Of Chinese characters one is enough.
_HAN: Final = re.compile("[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_MOST_WORDS: Final = 5


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
    output_schema=shapes.page("results", shapes.FOUND, message=shapes.TEXT),
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
    found = await account.page(
        ctx,
        *path,
        name="results",
        shape=shapes.FOUND,
        operation="search",
        resource="Project",
        resource_id=path[1] if project_id is not None else "",
        params=given({**params, "limit": limit, "offset": offset}),
    )
    message = _unused(query)
    return found | {"message": message} if message else found


def _unused(query: str) -> str:
    """Which words Redmine does not look for; it says nothing of that."""
    words = list(dict.fromkeys(quoted or word for quoted, word in _WORD.findall(query)))
    short = [word for word in words if len(word) == 1 and not _HAN.match(word)]
    used = [word for word in words if word not in short]
    told = []
    if short:
        told.append(f"Redmine does not look for words of one character: {', '.join(short)}.")
    if len(used) > _MOST_WORDS:
        told.append(f"Redmine looks for the first {_MOST_WORDS} words only, not for {', '.join(used[_MOST_WORDS:])}.")
    if not used:
        told.append("So nothing was looked for.")
    return shortened(" ".join(told), 500)
