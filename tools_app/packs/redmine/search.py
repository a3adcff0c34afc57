"""Full-text search. https://www.redmine.org/projects/redmine/wiki/Rest_Search"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, lookups, pack, shapes
from tools_app.packs.redmine.arguments import Limit, Name, Offset, without_none
from tools_app.sdk.context import Context
from tools_app.sdk.errors import shortened
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

# How Redmine splits a query: words and quoted phrases, of which it searches the first five.
_WORD: Final = re.compile(r'"([^"]+)"|(\S+)')
# A single Chinese character is searched.
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
    query: Annotated[str, Field(min_length=1, max_length=255, pattern=r"\S"), "Words; all must match."],
    project_id: Annotated[Name | None, "Only in this project: id, identifier or name."] = None,
    titles_only: Annotated[bool, "Search titles only."] = False,
    open_issues: Annotated[bool, "Exclude closed issues."] = False,
    limit: Limit = 25,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Search issues, wiki, news, documents, files and messages, latest first."""
    path: tuple[str, ...] = ("search",)
    if project_id is not None:
        path = ("projects", await lookups.project_key(ctx, project_id), "search")
    params = {"q": query, "titles_only": titles_only or None, "open_issues": open_issues or None}
    answer = await account.page(
        ctx,
        *path,
        name="results",
        shape=shapes.FOUND,
        operation="search",
        resource="Project",
        resource_id=path[1] if project_id is not None else "",
        params=without_none({**params, "limit": limit, "offset": offset}),
    )
    message = _unused(query)
    return answer | {"message": message} if message else answer


def _unused(query: str) -> str:
    """A message about words that Redmine silently ignores."""
    words = list(dict.fromkeys(quoted or word for quoted, word in _WORD.findall(query)))
    short = [word for word in words if len(word) == 1 and not _HAN.match(word)]
    used = [word for word in words if word not in short]
    sentences = []
    if short:
        sentences.append(f"Redmine ignores words of one character: {', '.join(short)}.")
    if len(used) > _MOST_WORDS:
        sentences.append(f"Redmine searches only the first {_MOST_WORDS} words, not {', '.join(used[_MOST_WORDS:])}.")
    if not used:
        sentences.append("So nothing was searched.")
    return shortened(" ".join(sentences), 500)
