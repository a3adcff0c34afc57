"""Finding tools: by a text, and by the tags and categories that there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from django.http import HttpRequest, HttpResponse
from ninja import Query
from pydantic import ConfigDict, Field, model_validator

from tools_app.access import access
from tools_app.api.answers import Shown, answer
from tools_app.api.authentication import caller_of
from tools_app.api.bodies import NOT_BLANK, Body
from tools_app.api.errors import failures
from tools_app.api.queries import QueryString, Word, optional
from tools_app.api.routing import StrictRouter
from tools_app.api.tools import ToolItem, serve_tool_named, shown
from tools_app.catalog import catalog, search
from tools_app.catalog.entry import Entry
from tools_app.catalog.search import Hit
from tools_app.catalog.snapshot import Snapshot
from tools_app.sdk.errors import Problem, ValidationError

router = StrictRouter(tags=["tools"])
labels = StrictRouter(tags=["tools"])

_ORDERS: Final[dict[str, Callable[[Entry], tuple[str, ...]]]] = {
    "name": lambda entry: (entry.name,),
    "category": lambda entry: (entry.category, entry.name),
}

Label = Annotated[str, Field(min_length=1, max_length=64)]


class SearchFilters(Body):
    category: Label | None = Field(default=None, description="Only tools of this category, or of one below it (`a/b`)")
    tags: list[Label] | None = Field(default=None, max_length=20, description="Only tools with these tags")
    match_tags: Literal["any", "all"] = Field(default="any", description="Whether one of the tags is enough")

    def fit(self, entry: Entry) -> bool:
        return (self.category is None or search.within(entry.category, self.category)) and search.tagged(
            entry, self.tags or (), every=self.match_tags == "all"
        )


class SearchRequest(Body):
    # The pattern is for the description; who breaks it is told in the documents' words.
    query: str = Field(max_length=500, json_schema_extra={"minLength": 1, **NOT_BLANK})
    filters: SearchFilters = SearchFilters()
    match_type: Literal["partial", "prefix", "exact", "relevance"] = Field(
        default="partial", description="relevance: what the query is about, in all that is said of a tool, best first"
    )
    fields: list[Literal["name", "description", "category", "tags"]] = Field(
        default=list(search.DEFAULT_FIELDS), min_length=1, max_length=4, description="Where to look"
    )
    case_sensitive: bool = False
    sort: Literal["relevance", "name", "category"] = "relevance"
    limit: int = Field(default=20, ge=1, le=100)
    offset: int = Field(default=0, ge=0, le=100_000, description="Leave out so many of the first")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "echo", "filters": {"tags": ["builtin"]}, "fields": ["name"]}]}
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_nothing(cls, sent: Any) -> Any:
        if isinstance(sent, dict) and not str(sent.get("query") or "").strip():
            raise ValidationError(problems=[Problem("/query", "Query is required", "text to look for")])
        return sent


class Match(Shown):
    field: Literal["name", "description", "category", "tags"]
    positions: list[int] = Field(description="At which character the query begins")


class Found(ToolItem):
    score: float = Field(ge=0, le=1)
    matches: list[Match]


class SearchAnswer(Shown):
    query: str
    match_type: Literal["partial", "prefix", "exact", "relevance"]
    results: list[Found]
    total: int = Field(description="How many fit, whatever `limit` lets through")
    has_more: bool


class Tag(Shown):
    tag: str
    count: int


class Tags(Shown):
    tags: list[Tag]
    total: int


class Category(Shown):
    category: str
    count: int


class Categories(Shown):
    categories: list[Category]
    total: int


@router.post("/search", response={200: SearchAnswer, **failures(408, 413, 415)}, url_name="search")
async def search_tools(request: HttpRequest, body: SearchRequest) -> HttpResponse:
    """Find tools by a text, the best first. All filters must fit.

    A match in the name counts more than one in the description, tags or category; one that begins early and covers
    much of the text counts more than another. With `relevance`, words count by what they mean and how rare they are,
    wherever they stand, in English and Japanese; `fields` and `caseSensitive` say nothing then. Tools that cannot be
    called are found only with the scope `tools:manage`.
    """
    snapshot, visible = await _seen(request)
    if body.match_type == "relevance":
        ranked = await search.found(snapshot, body.query)
        hits = [Hit(entry, score, []) for entry, score in ranked if visible(entry) and body.filters.fit(entry)]
    else:
        hits = search.ranked(
            (entry for entry in snapshot.all if visible(entry) and body.filters.fit(entry)),
            body.query,
            match_type=body.match_type,
            fields=body.fields,
            case_sensitive=body.case_sensitive,
        )
    if body.sort != "relevance":
        hits = sorted(hits, key=lambda hit: _ORDERS[body.sort](hit.entry))
    page = hits[body.offset : body.offset + body.limit]
    return answer(
        {
            "query": body.query,
            "matchType": body.match_type,
            "results": [_found(hit) for hit in page],
            "total": len(hits),
            "hasMore": body.offset + len(page) < len(hits),
        }
    )


serve_tool_named("search", router)


class TagsQuery(QueryString):
    related_to: Word | None = optional("Only tags that tools with this one have besides; at most ten")


@labels.get("/tags", response={200: Tags, **failures()}, url_name="tags")
async def list_tags(request: HttpRequest, query: Query[TagsQuery]) -> HttpResponse:
    """List the tags and how many tools have each, the most common first."""
    seen = await seen_by_caller(request)
    found = search.tags(seen) if query.related_to is None else search.related(seen, [query.related_to])
    return answer({"tags": [{"tag": tag, "count": count} for tag, count in found], "total": len(found)})


@labels.get("/categories", response={200: Categories, **failures()}, url_name="categories")
async def list_categories(request: HttpRequest) -> HttpResponse:
    """List the categories by name and how many tools are in each."""
    found = search.categories(await seen_by_caller(request))
    shown = [{"category": category, "count": count} for category, count in found]
    return answer({"categories": shown, "total": len(found)})


async def seen_by_caller(request: HttpRequest) -> list[Entry]:
    """What somebody who looks for a tool to call should find. Operators find what is switched off, too."""
    snapshot, visible = await _seen(request)
    return [entry for entry in snapshot.all if visible(entry)]


async def _seen(request: HttpRequest) -> tuple[Snapshot, Callable[[Entry], bool]]:
    caller = caller_of(request)
    access.require(caller, "tools:list")
    manages = caller.may("tools:manage")
    return (await catalog.fresh()).seen_by(caller), lambda entry: entry.callable or manages


def _found(hit: Hit) -> dict[str, Any]:
    matches = [{"field": match.field, "positions": [match.position]} for match in hit.matches]
    return {**shown(hit.entry), "score": round(hit.score, 4), "matches": matches}
