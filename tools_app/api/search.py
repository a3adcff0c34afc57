"""Searching tools by text, and listing tags and categories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from django.http import HttpRequest
from ninja import Query
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from tools_app.access import actions
from tools_app.api.answers import ResponseSchema, omitted_if_empty
from tools_app.api.authentication import require
from tools_app.api.bodies import NOT_BLANK, Body
from tools_app.api.queries import QueryString, Word, optional
from tools_app.api.routing import StrictRouter
from tools_app.api.tools import ToolItem, serve_tool_named
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
    category: Label | None = Field(
        default=None, description="Only tools of this category or its subcategories (`a` includes `a/b`)"
    )
    tags: list[Label] | None = Field(default=None, max_length=20, description="Only tools with these tags")
    match_tags: Literal["any", "all"] = Field(default="any", description="Whether a tool needs one of the tags or all")
    source: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Only tools of the source with this name, such as a pack"
    )

    def fit(self, entry: Entry) -> bool:
        return (
            (self.category is None or search.within(entry.category, self.category))
            and (self.source is None or entry.source_name == self.source)
            and search.tagged(entry, self.tags or (), every=self.match_tags == "all")
        )


class SearchRequest(Body):
    # The pattern is for OpenAPI only: `_require_query` answers in the words of the requirements.
    query: str = Field(max_length=500, json_schema_extra={"minLength": 1, **NOT_BLANK})
    filters: SearchFilters = SearchFilters()
    match_type: Literal["partial", "prefix", "exact", "relevance"] = Field(
        default="partial", description="relevance: ranked full-text search over all texts of a tool"
    )
    fields: list[Literal["name", "description", "category", "tags"]] = Field(
        default=list(search.DEFAULT_FIELDS), min_length=1, max_length=4, description="Fields to search"
    )
    case_sensitive: bool = False
    sort: Literal["relevance", "name", "category"] = "relevance"
    limit: int = Field(default=20, ge=1, le=100)
    offset: int = Field(default=0, ge=0, le=100_000, description="Number of results to skip")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "echo", "filters": {"tags": ["builtin"]}, "fields": ["name"]}]}
    )

    @model_validator(mode="before")
    @classmethod
    def _require_query(cls, body: Any) -> Any:
        if isinstance(body, dict) and not str(body.get("query") or "").strip():
            raise ValidationError(problems=[Problem("/query", "Query is required", "text to look for")])
        return body


class SearchMatch(ResponseSchema):
    field: Literal["name", "description", "category", "tags"]
    positions: Annotated[list[int], BeforeValidator(lambda position: [position])] = Field(
        validation_alias="position", description="Character offsets of the match"
    )


class SearchResult(ToolItem):
    score: float = Field(ge=0, le=1)
    matches: list[SearchMatch]


class LikelySource(ResponseSchema):
    name: str
    about: str = Field(description="How many tools it has, and the commonest words of their names")


class SearchAnswer(ResponseSchema):
    query: str
    match_type: Literal["partial", "prefix", "exact", "relevance"]
    results: list[SearchResult]
    total: int = Field(description="Number of all matching tools, regardless of `limit`")
    has_more: bool
    sources: list[LikelySource] | None = omitted_if_empty(
        "For `relevance`, up to five sources with tools that match, the likeliest first. `filters.source` selects one"
    )


class TagCount(ResponseSchema):
    tag: str
    count: int


class Tags(ResponseSchema):
    tags: list[TagCount]
    total: int


class CategoryCount(ResponseSchema):
    category: str
    count: int


class Categories(ResponseSchema):
    categories: list[CategoryCount]
    total: int


@router.post("/search", response=SearchAnswer, url_name="search")
async def search_tools(request: HttpRequest, body: SearchRequest) -> SearchAnswer:
    """Search tools by text, best match first. Filters are combined (AND).

    A match in the name scores higher than one in the description, tags or category; so does a match that starts early
    and covers much of the text. `relevance` weighs words by meaning and rarity, in any order, in English and Japanese,
    and ignores `fields` and `caseSensitive`. Tools that cannot be called are included only with the scope
    `tools:manage`.
    """
    snapshot, visible = await _view(request)
    sources: list[search.LikelySource] = []
    if body.match_type == "relevance":
        scored_entries = await search.found(snapshot, body.query, body.filters.source or "")
        hits = [Hit(entry, score, []) for entry, score in scored_entries if visible(entry) and body.filters.fit(entry)]
        sources = search.likeliest(snapshot, [(hit.entry, hit.score) for hit in hits])
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
    results = [SearchResult.shown(hit.entry, score=round(hit.score, 4), matches=hit.matches) for hit in page]
    has_more = body.offset + len(page) < len(hits)
    return SearchAnswer.of(body, results=results, total=len(hits), has_more=has_more, sources=sources or None)


serve_tool_named("search", router)


class TagsQuery(QueryString):
    related_to: Word | None = optional("Only other tags of the tools with this tag; at most ten")


@labels.get("/tags", response=Tags, url_name="tags")
async def list_tags(request: HttpRequest, query: Query[TagsQuery]) -> Tags:
    """List the tags with the number of tools, most common first."""
    entries = await visible_entries(request)
    counts = search.tags(entries) if query.related_to is None else search.related(entries, [query.related_to])
    return Tags(tags=[TagCount(tag=tag, count=count) for tag, count in counts], total=len(counts))


@labels.get("/categories", response=Categories, url_name="categories")
async def list_categories(request: HttpRequest) -> Categories:
    """List the categories by name with the number of tools."""
    counts = search.categories(await visible_entries(request))
    items = [CategoryCount(category=category, count=count) for category, count in counts]
    return Categories(categories=items, total=len(items))


async def visible_entries(request: HttpRequest) -> list[Entry]:
    """The tools that the caller can call; for operators, also those that cannot be called."""
    snapshot, visible = await _view(request)
    return [entry for entry in snapshot.all if visible(entry)]


async def _view(request: HttpRequest) -> tuple[Snapshot, Callable[[Entry], bool]]:
    caller = require(request, actions.TOOLS_LIST)
    manages = actions.TOOL_CHANGE.permits(caller)
    return (await catalog.fresh()).seen_by(caller), lambda entry: entry.callable or manages
