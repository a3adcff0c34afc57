"""Wiki pages. https://www.redmine.org/projects/redmine/wiki/Rest_WikiPages"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, identity, lookups, pack, reasons, shapes, writing
from tools_app.packs.redmine.arguments import Id, Name, without_none
from tools_app.sdk.checker import rejected
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, NotFoundError, ToolError, UpstreamValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

_TAGS: Final = ("redmine", "wiki")
_WRITES: Final = (*_TAGS, "write")
_RESOURCE: Final = "Wiki page"
# As Redmine makes titles: without these, with underscores for spaces and a capital letter.
_DROPPED: Final = re.compile(r"[,./?;|:]")

_Project = Annotated[Name, Field(description="Id, identifier or name.")]
Title = Annotated[
    str, Field(min_length=1, max_length=255, pattern=r"[^\s,./?;|:]", description="Title of a wiki page.")
]


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it is now. `title` is Redmine's, also if it was asked for by an old name."""

    project: str
    title: str
    data: Mapping[str, Any]

    @property
    def attachments(self) -> list[dict[str, Any]]:
        return shapes.parts_of(self.data, "attachments")

    async def change(self, ctx: Context, changes: Mapping[str, Any]) -> None:
        """Change it, if nobody has changed it meanwhile. Redmine requires the text with every change."""
        same = {"text": self.data.get("text") or "", "version": self.data.get("version")}
        await _put(ctx, self.project, self.title, without_none({**same, **changes}))


@pack.tool(
    title="List wiki pages",
    category="wiki",
    tags=_TAGS,
    keywords=("table of contents, documentation, which pages", "ウィキの一覧 目次 どんなページ 資料"),
    hints=Hints(read_only=True),
    examples=[Example("The pages of a project", {"project_id": "website"}, shown_only=True)],
    output_schema=shapes.page("wiki_pages", shapes.LISTED_PAGE),
)
async def list_wiki_pages(ctx: Context, project_id: _Project) -> dict[str, Any]:
    """List the wiki pages of a project. search_redmine finds words in them."""
    key = await lookups.project_key(ctx, project_id)
    return await account.page(
        ctx,
        *("projects", key, "wiki", "index"),
        name="wiki_pages",
        shape=shapes.LISTED_PAGE,
        operation="list wiki pages",
        resource="Project",
    )


@pack.tool(
    title="Get wiki page",
    category="wiki",
    tags=_TAGS,
    keywords=("read documentation, manual, how-to, notes of a meeting", "ウィキを読む 手順 マニュアル 議事録"),
    hints=Hints(read_only=True),
    examples=[Example("A page", {"project_id": "website", "title": "Wiki"}, shown_only=True)],
    output_schema=shapes.one("wiki_page", shapes.WIKI_PAGE),
)
async def get_wiki_page(
    ctx: Context,
    project_id: _Project,
    title: Title,
    version: Annotated[Id | None, "An older version."] = None,
) -> dict[str, Any]:
    """Get the text of a wiki page, its version and attachments."""
    page = await page_of(ctx, project_id, title, version)
    return {"wiki_page": shapes.shown(shapes.WIKI_PAGE, page.data)}


@pack.tool(
    title="Write wiki page",
    category="wiki",
    tags=_WRITES,
    keywords=("document, edit a page, new page, add to the manual", "ウィキに書く ページを作る 更新 追記 手順を残す"),
    hints=Hints(destructive=True),
    examples=[
        Example("A new page", {"project_id": "website", "title": "Release", "text": "h1. Release"}, shown_only=True),
        Example(
            "A change", {"project_id": "website", "title": "Wiki", "text": "h1. Start", "version": 3}, shown_only=True
        ),
    ],
    output_schema=shapes.written("wiki_page"),
)
async def write_wiki_page(
    ctx: Context,
    project_id: _Project,
    title: Title,
    text: Annotated[str, Field(min_length=1, max_length=500_000, pattern=r"\S"), "The whole page, in its markup."],
    version: Annotated[Id | None, "The version that you have read; required to change a page."] = None,
    comments: Annotated[str | None, Field(max_length=1024), "Why, for the history."] = None,
    parent_title: Annotated[str | None, Field(max_length=255), "Page above it."] = None,
) -> dict[str, Any]:
    """Create a wiki page, or replace its text. Redmine keeps older versions."""
    key = await lookups.project_key(ctx, project_id)
    await identity.check(ctx)
    before = await _existing(ctx, key, title)
    _check_version(before, version, title)
    changes = without_none({"text": text, "comments": comments, "version": version})
    if parent_title is not None:
        changes["parent_title"] = (await page_of(ctx, key, parent_title)).title if parent_title.strip() else ""
    # By an old name, Redmine only answers with a redirection.
    await _put(ctx, key, before.title if before else titled(title), changes)
    return await _verified(ctx, key, before.title if before else title, changes, "changed" if before else "created")


@pack.tool(
    title="Delete wiki page",
    category="wiki",
    tags=_WRITES,
    keywords=("remove a page, outdated documentation", "ウィキのページを消す 古い資料"),
    # Not idempotent: a second call could delete a page that has been renamed to this title.
    hints=Hints(destructive=True),
    examples=[Example("Delete for good", {"project_id": "website", "title": "Old_page"}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_wiki_page(ctx: Context, project_id: _Project, title: Title) -> dict[str, Any]:
    """Delete a wiki page for good, with its versions and attachments. Pages below it stay."""
    await identity.check(ctx)
    page = await page_of(ctx, project_id, title)
    operation = "delete wiki page"
    async with reasons.with_reasons(ctx, operation, project=page.project):
        path = ("projects", page.project, "wiki", page.title)
        await ctx.http.delete(*path, operation=operation, resource=_RESOURCE, resource_id=page.title)
    return writing.done(f"Wiki page {page.title} was successfully deleted.")


def titled(title: str) -> str:
    """A title as Redmine makes it."""
    made = _DROPPED.sub("", re.sub(r"\s+", "_", title.strip()))
    return made[:1].upper() + made[1:]


async def page_of(ctx: Context, project: str, title: str, version: int | None = None) -> Page:
    """A page of a project, with its attachments.

    Raises:
        ToolError: there is none.
    """
    key = await lookups.project_key(ctx, project)
    path: tuple[str | int, ...] = ("projects", key, "wiki", titled(title))
    data = await account.one(
        ctx,
        *(path if version is None else (*path, version)),
        name="wiki_page",
        operation="get wiki page",
        resource=_RESOURCE,
        resource_id=titled(title),
        include="attachments",
    )
    return Page(key, str(data.get("title") or titled(title)), data)


async def _existing(ctx: Context, key: str, title: str) -> Page | None:
    try:
        return await page_of(ctx, key, title)
    except NotFoundError:
        # Redmine answers alike for a project that is not there.
        await account.one(ctx, "projects", key, name="project", operation="get project", resource="Project")
        return None


def _check_version(page: Page | None, version: int | None, title: str) -> None:
    """Check that the caller has read the page that they replace.

    Raises:
        InvalidArgumentsError: they have not.
    """
    current = page.data.get("version") if page is not None else None
    if page is None and version is not None:
        # Redmine would create it, with this version.
        reason = f"there is no wiki page {titled(title)}"
        raise InvalidArgumentsError(problems=[rejected(["version"], reason, "no version, to create it")])
    if page is not None and version != current:
        reason = f"wiki page {page.title} is in version {current}"
        expected = "the version that you have read: get_wiki_page has the current text"
        raise InvalidArgumentsError(problems=[rejected(["version"], reason, expected)])


async def _put(ctx: Context, key: str, title: str, changes: Mapping[str, Any]) -> None:
    operation = "write wiki page"
    async with reasons.with_reasons(ctx, operation, project=key):
        path = ("projects", key, "wiki", title)
        body = {"wiki_page": changes}
        await ctx.http.put(*path, operation=operation, resource=_RESOURCE, resource_id=title, json=body)


async def _verified(ctx: Context, key: str, title: str, changes: Mapping[str, Any], verb: str) -> dict[str, Any]:
    try:
        page = await page_of(ctx, key, title)
    except ToolError as error:
        warning = f"The result could not be verified: {error.message}"
        return writing.done(f"Wiki page {titled(title)} was successfully {verb}.", warnings=[warning])
    if not writing.same(page.data.get("text"), changes["text"]):
        raise UpstreamValidationError(
            f"Wiki page {page.title} was not {verb} as requested: it has another text",
            next_step="Another user may have changed it at the same time: read it again.",
        )
    shown = shapes.shown(shapes.LISTED_PAGE, page.data)
    wanted = changes.get("parent_title")
    if wanted is not None and shapes.part_of(page.data, "parent").get("title", "") != wanted:
        message = f"Wiki page {page.title} was {verb}, but Redmine ignored parent_title."
        warning = "parent_title: requires the permission “Rename wiki pages” in this project."
        return writing.done(message, warnings=[warning], partly=True, wiki_page=shown)
    return writing.done(f"Wiki page {page.title} was successfully {verb}.", wiki_page=shown)
