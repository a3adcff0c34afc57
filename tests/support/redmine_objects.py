"""Attachments, wiki pages, relations, versions, categories, comments, members and queries of our own Redmine.

Each function answers one request: who asks, with which parameters and which body.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.support.redmine_answers import IDS, PEOPLE, TRUSTED, Answer, Refuse, listed

if TYPE_CHECKING:
    from tests.support.redmine import FakeRedmine

_AT: Final = "2026-11-20T07:35:35Z"
_MOST_BYTES: Final = 5120 * 1024
_MANAGERS: Final = ("admin", "manager")
_ROLES: Final = [{"id": 3, "name": "Manager"}, {"id": 4, "name": "Developer"}, {"id": 5, "name": "Reporter"}]
# Who is no member of a project yet.
NOBODY: Final = {"id": 8, "name": "No Membership"}
_OPPOSITE: Final = {"blocked": "blocks", "follows": "precedes", "duplicated": "duplicates", "copied_from": "copied_to"}
_RELATIONS: Final = ("relates", "duplicates", "blocks", "precedes", "copied_to", *_OPPOSITE)
_QUERIES: Final = ("Issues assigned to me", "Reported issues", "Updated issues", "Watched issues")


def _first_pages() -> dict[tuple[int, str], list[dict[str, Any]]]:
    texts = {
        "Wiki": ["h1. Start\n\nfirst", "h1. Start\n\nsecond <b>&</b> [[Child_page]]"],
        "Child_page": ["child"],
        "Straße_&_Ünïcode": ["ß"],
    }
    author = {"id": 5, "name": PEOPLE[5]}
    pages = {
        (1, title): [
            {"title": title, "text": text, "version": number, "author": author, "comments": f"version {number}"}
            | {"created_on": _AT, "updated_on": _AT, "attachments": []}
            for number, text in enumerate(versions, 1)
        ]
        for title, versions in texts.items()
    }
    pages[1, "Child_page"][0]["parent"] = {"title": "Wiki"}
    return pages


@dataclass
class Objects:
    files: dict[int, bytes] = field(default_factory=lambda: {1: "hello, attachment é\n".encode()})
    # Uploaded, and attached to nothing yet: by token.
    uploads: dict[str, dict[str, Any]] = field(default_factory=dict)
    # All versions of each page, by project and title.
    pages: dict[tuple[int, str], list[dict[str, Any]]] = field(default_factory=_first_pages)
    # New titles by the old ones.
    redirects: dict[tuple[int, str], str] = field(default_factory=dict)
    categories: list[dict[str, Any]] = field(default_factory=lambda: listed("categories"))
    memberships: list[dict[str, Any]] = field(default_factory=lambda: listed("memberships"))
    queries: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"id": number, "name": name, "is_public": True, "project_id": None}
            for number, name in enumerate(_QUERIES, 1)
        ]
    )
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(200))


# ---- attachments


def _holders(fake: FakeRedmine) -> Iterator[tuple[dict[str, Any], int]]:
    """What files are attached to, and in which project that is."""
    for issue in fake.issues.values():
        yield issue, issue["project"]["id"]
    for (project, _), versions in fake.objects.pages.items():
        yield versions[-1], project


def _attached(fake: FakeRedmine, login: str, number: int) -> tuple[dict[str, Any], dict[str, Any], int]:
    for holder, project in _holders(fake):
        for attachment in holder.get("attachments", ()):
            if attachment["id"] == number:
                fake._project(login, str(project))
                return attachment, holder, project
    raise Refuse(404)


def get_attachment(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    return 200, {"attachment": _attached(fake, login, int(params["id"]))[0]}


def download(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    _attached(fake, login, int(params["id"]))
    return 200, fake.objects.files[int(params["id"])]


def delete_attachment(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    attachment, holder, project = _attached(fake, login, int(params["id"]))
    fake._writable(login, str(project))
    if login not in TRUSTED:
        raise Refuse(403)
    holder["attachments"].remove(attachment)
    return 204, None


def upload(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    if not login:
        raise Refuse(401)
    content = body or b""
    if len(content) > _MOST_BYTES:
        raise Refuse(
            422, f"This file cannot be uploaded because it exceeds the maximum allowed file size ({_MOST_BYTES})"
        )
    number = next(fake.objects.numbers)
    token = f"{number}.{hash(content):x}".replace("-", "")
    fake.objects.files[number] = content
    fake.objects.uploads[token] = {
        "id": number,
        "filename": re.sub(r'[?%*:|"\'<>\n\r]+', "_", re.split(r"[/\\]", params["filename"])[-1]),
        "filesize": len(content),
        "content_type": "text/plain",
        "content_url": f"{fake.url}/attachments/download/{number}/x",
        "author": {"id": IDS[login], "name": PEOPLE[IDS[login]]},
        "created_on": _AT,
    }
    return 201, {"upload": {"id": number, "token": token}}


def attach(fake: FakeRedmine, holder: dict[str, Any], uploads: list[dict[str, Any]]) -> None:
    """What a change of an issue or a page does with its `uploads`."""
    if any(one["token"] not in fake.objects.uploads for one in uploads):
        raise Refuse(422, f"{len(uploads)} file(s) could not be saved.")
    for one in uploads:
        attachment = fake.objects.uploads.pop(one["token"]) | {"description": one.get("description", "")}
        holder.setdefault("attachments", []).append(attachment)


# ---- wiki


def titled(title: str) -> str:
    made = re.sub(r"[,./?;|:]", "", re.sub(r"\s+", "_", title))
    return made[:1].upper() + made[1:]


def _versions(fake: FakeRedmine, login: str, params: Mapping[str, str]) -> list[dict[str, Any]]:
    project = fake._project(login, params["id"])["id"]
    title = fake.objects.redirects.get((project, titled(params["title"])), titled(params["title"]))
    same = [
        versions
        for (holder, name), versions in fake.objects.pages.items()
        if holder == project and name.casefold() == title.casefold()
    ]
    if not same:
        raise Refuse(404)
    return same[0]


def list_pages(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    project = fake._project(login, params["id"])["id"]
    kept = ("title", "version", "parent", "created_on", "updated_on")
    pages = [versions[-1] for (holder, _), versions in sorted(fake.objects.pages.items()) if holder == project]
    return 200, {"wiki_pages": [{key: one[key] for key in kept if key in one} for one in pages]}


def get_page(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    versions = _versions(fake, login, params)
    number = int(params.get("version") or versions[-1]["version"])
    found = [one for one in versions if one["version"] == number]
    if not found:
        raise Refuse(404)
    shown = dict(found[0])
    if "attachments" not in params.get("include", ""):
        del shown["attachments"]
    return 200, {"wiki_page": shown}


def put_page(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    project, asked = fake._writable(login, params["id"])["id"], body["wiki_page"]
    if login not in TRUSTED:
        raise Refuse(403)
    try:
        versions = _versions(fake, login, params)
    except Refuse:
        versions = []
    current = versions[-1] if versions else None
    if current is not None and asked.get("version", current["version"]) != current["version"]:
        raise Refuse(409)
    if not asked.get("text"):
        raise Refuse(422, "Text field cannot be blank")
    parent = asked.get("parent_title")
    if parent and (project, titled(parent)) not in fake.objects.pages:
        # The list of reasons is empty.
        raise _NoReason
    made = dict(current or {"title": titled(params["title"]), "created_on": _AT, "attachments": []})
    made |= {"text": asked["text"], "comments": asked.get("comments"), "updated_on": _AT}
    made["author"] = {"id": IDS[login], "name": PEOPLE[IDS[login]]}
    if parent is not None:
        made["parent"] = {"title": titled(parent)}
        if not parent:
            del made["parent"]
    attach(fake, made, asked.get("uploads", []))
    if current is None:
        made["version"] = asked.get("version", 1)
    elif current["text"] != made["text"]:
        made["version"] = current["version"] + 1
    else:
        versions.pop()
    fake.objects.pages[project, made["title"]] = [*versions, made]
    return (204, None) if current else (201, {"wiki_page": {k: v for k, v in made.items() if k != "attachments"}})


def delete_page(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    project = fake._writable(login, params["id"])["id"]
    title = _versions(fake, login, params)[-1]["title"]
    if login not in TRUSTED:
        raise Refuse(403)
    del fake.objects.pages[project, title]
    for (holder, _), versions in fake.objects.pages.items():
        if holder == project and versions[-1].get("parent") == {"title": title}:
            del versions[-1]["parent"]
    return 204, None


_NoReason = Refuse(422)
_NoReason.answer = (422, {"errors": []})

_Route = tuple[str, str, Callable[["FakeRedmine", str, Mapping[str, str], Any], Answer]]
_ID: Final = "(?P<id>[^/]+)"
_WIKI: Final = f"/projects/{_ID}/wiki"
_TITLE: Final = "(?P<title>[^./]+)"
ROUTES: Final[tuple[_Route, ...]] = (
    ("GET", rf"/attachments/{_ID}\.json", get_attachment),
    ("GET", "/attachments/download/(?P<id>[0-9]+)", download),
    ("DELETE", rf"/attachments/{_ID}\.json", delete_attachment),
    ("POST", r"/uploads\.json", upload),
    ("GET", rf"{_WIKI}/index\.json", list_pages),
    ("GET", rf"{_WIKI}/{_TITLE}(?:/(?P<version>[0-9]+))?\.json", get_page),
    ("PUT", rf"{_WIKI}/{_TITLE}\.json", put_page),
    ("DELETE", rf"{_WIKI}/{_TITLE}\.json", delete_page),
)
