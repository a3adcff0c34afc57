"""Attachments, wiki pages, relations, versions, categories, comments, members and queries of our own Redmine.

Each function answers one request: who asks, with which parameters and which body.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.support.redmine_answers import IDS, PEOPLE, TRUSTED, Answer, Refuse, listed, named, page

if TYPE_CHECKING:
    from tests.support.redmine import FakeRedmine

_AT: Final = "2026-11-20T07:35:35Z"
_MOST_BYTES: Final = 5120 * 1024
_MANAGERS: Final = ("admin", "manager")
_ROLES: Final = [{"id": 3, "name": "Manager"}, {"id": 4, "name": "Developer"}, {"id": 5, "name": "Reporter"}]
# Who is no member of a project yet.
NOBODY: Final[dict[str, Any]] = {"id": 8, "name": "No Membership"}
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


def _reporter() -> dict[str, Any]:
    """A member of the project who was on the next page when the others were recorded."""
    return {"id": 9, "project": {"id": 1, "name": "Alpha"}, "user": {"id": 7, "name": PEOPLE[7]}, "roles": [_ROLES[2]]}


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
    memberships: list[dict[str, Any]] = field(default_factory=lambda: [*listed("memberships"), _reporter()])
    queries: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"id": number, "name": name, "is_public": True, "project_id": None}
            for number, name in enumerate(_QUERIES, 1)
        ]
    )
    # A setting of Redmine.
    relates_copies: bool = True
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
    if login not in TRUSTED:
        raise Refuse(403)
    title = _versions(fake, login, params)[-1]["title"]
    del fake.objects.pages[project, title]
    for (holder, _), versions in fake.objects.pages.items():
        if holder == project and versions[-1].get("parent") == {"title": title}:
            del versions[-1]["parent"]
    return 204, None


# ---- relations


def _relations(fake: FakeRedmine, number: int) -> list[dict[str, Any]]:
    """Those of an issue, each once though both issues have it."""
    holders = fake.issues.values()
    found = {one["id"]: one for issue in holders for one in issue.get("relations", ())}
    return [one for one in found.values() if number in (one["issue_id"], one["issue_to_id"])]


def create_relation(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    issue, asked = fake._issue(login, params["id"]), body["relation"]
    fake._writable(login, str(issue["project"]["id"]))
    if login not in TRUSTED:
        raise Refuse(403)
    number, other, kind = issue["id"], asked["issue_to_id"], asked["relation_type"]
    if other not in fake.issues:
        raise Refuse(422, "Related issue cannot be blank")
    if other == number:
        raise Refuse(422, "Related issue is invalid")
    first, second = (other, number) if kind in _OPPOSITE else (number, other)
    for one in _relations(fake, number):
        if (one["issue_id"], one["issue_to_id"]) == (first, second):
            raise Refuse(422, "Related issue has already been taken")
        if other in (one["issue_id"], one["issue_to_id"]):
            raise Refuse(422, "This relation would create a circular dependency")
    relation = {"id": next(fake.objects.numbers), "issue_id": first, "issue_to_id": second}
    relation |= {"relation_type": _OPPOSITE.get(kind, kind), "delay": asked.get("delay")}
    for one in (number, other):
        fake.issues[one]["relations"] = [*fake.issues[one].get("relations", ()), relation]
    return 201, {"relation": relation}


def delete_relation(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    number = int(params["id"])
    holders = [issue for issue in fake.issues.values() if number in [one["id"] for one in issue.get("relations", ())]]
    if not holders:
        raise Refuse(404)
    if login not in TRUSTED:
        raise Refuse(403)
    for issue in holders:
        issue["relations"] = [one for one in issue["relations"] if one["id"] != number]
    return 204, None


# ---- comments and copies


def update_journal(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    for issue in fake.issues.values():
        for journal in issue.get("journals", ()):
            if str(journal["id"]) == params["id"]:
                if login not in _MANAGERS and journal["user"]["id"] != IDS.get(login):
                    raise Refuse(403)
                journal |= body["journal"]
                return 204, None
    raise Refuse(404)


def copied(fake: FakeRedmine, login: str, body: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """The issue as it is copied; nothing, if none is."""
    if "copy_from" not in body:
        return {}
    original = fake._issue(login, str(body["copy_from"]))
    if login not in TRUSTED:
        raise Refuse(403)
    kept = {
        key: value for key, value in original.items() if key not in ("journals", "watchers", "relations", "children")
    }
    if original["project"]["id"] != project["id"]:
        missing = {"Category": "category", "Target version": "fixed_version"}
        if wrong := [
            f"{title} is not included in the list"
            for title, name in missing.items()
            if kept.get(name) and body["issue"].get(f"{name}_id") != ""
        ]:
            raise Refuse(422, *wrong)
    if not body.get("copy_attachments"):
        kept.pop("attachments", None)
    return copy.deepcopy(kept)


def relate_copy(fake: FakeRedmine, body: Mapping[str, Any], number: int) -> None:
    if body.get("link_copy") and fake.objects.relates_copies:
        relation = {"id": next(fake.objects.numbers), "issue_id": body["copy_from"], "issue_to_id": number}
        relation |= {"relation_type": "copied_to", "delay": None}
        for one in (body["copy_from"], number):
            fake.issues[one]["relations"] = [*fake.issues[one].get("relations", ()), relation]


# ---- versions and categories


def _version(fake: FakeRedmine, number: str) -> dict[str, Any]:
    found = [one for one in fake.versions if str(one["id"]) == number]
    if not found:
        raise Refuse(404)
    return found[0]


def get_version(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    return 200, {"version": _version(fake, params["id"])}


def create_version(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    project, asked = fake._writable(login, params["id"]), body["version"]
    if login not in _MANAGERS:
        raise Refuse(403)
    if asked["name"] in [one["name"] for one in fake.versions if one["project"]["id"] == project["id"]]:
        raise Refuse(422, "Name has already been taken")
    version = fake.versions[0] | {"id": next(fake.objects.numbers), "project": named(project)}
    version |= {"description": "", "due_date": None, "sharing": "none", "status": "open", "wiki_page_title": None}
    version["custom_fields"] = [field | {"value": None} for field in version["custom_fields"]]
    _change_version(version, asked, login)
    fake.versions.append(version)
    return 201, {"version": version}


def _change_version(version: dict[str, Any], asked: Mapping[str, Any], login: str) -> None:
    if asked.get("status", "open") not in ("open", "locked", "closed"):
        raise Refuse(422, "Status is not included in the list")
    changes = {key: value for key, value in asked.items() if key != "custom_fields"}
    if changes.get("sharing") == "system" and login != "admin":
        # What only administrators may choose is passed over.
        del changes["sharing"]
    values = {one["id"]: one["value"] for one in asked.get("custom_fields", ())}
    version |= {key: None if value == "" and key == "due_date" else value for key, value in changes.items()}
    for one in version["custom_fields"]:
        one["value"] = values.get(one["id"], one["value"])


def update_version(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    version = _version(fake, params["id"])
    fake._writable(login, str(version["project"]["id"]))
    if login not in _MANAGERS:
        raise Refuse(403)
    _change_version(version, body["version"], login)
    return 204, None


def delete_version(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    version = _version(fake, params["id"])
    if login not in _MANAGERS:
        raise Refuse(403)
    if version["id"] in [(issue.get("fixed_version") or {}).get("id") for issue in fake.issues.values()]:
        raise Refuse(422)
    fake.versions.remove(version)
    return 204, None


def _category(fake: FakeRedmine, login: str, number: str) -> dict[str, Any]:
    found = [one for one in fake.objects.categories if str(one["id"]) == number]
    if not found:
        raise Refuse(404)
    if login not in _MANAGERS:
        raise Refuse(403)
    return found[0]


def get_category(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    return 200, {"issue_category": _category(fake, login, params["id"])}


def create_category(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    project, asked = fake._writable(login, params["id"]), body["issue_category"]
    if login not in _MANAGERS:
        raise Refuse(403)
    if asked["name"] in [one["name"] for one in fake.objects.categories if one["project"]["id"] == project["id"]]:
        raise Refuse(422, "Name has already been taken")
    category = {"id": next(fake.objects.numbers), "project": named(project), "name": asked["name"]}
    _assign(category, asked)
    fake.objects.categories.append(category)
    return 201, {"issue_category": category}


def _assign(category: dict[str, Any], asked: Mapping[str, Any]) -> None:
    user = asked.get("assigned_to_id")
    if user in PEOPLE:
        category["assigned_to"] = {"id": user, "name": PEOPLE[user]}
    elif user is not None:
        category.pop("assigned_to", None)


def update_category(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    category, asked = _category(fake, login, params["id"]), body["issue_category"]
    category["name"] = asked.get("name", category["name"])
    _assign(category, asked)
    return 204, None


def delete_category(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    category = _category(fake, login, params["id"])
    others = [one for one in fake.objects.categories if str(one["id"]) == params.get("reassign_to_id")]
    fake.objects.categories.remove(category)
    for issue in fake.issues.values():
        if (issue.get("category") or {}).get("id") == category["id"]:
            issue["category"] = named(others[0]) if others else None
    return 204, None


# ---- members


def create_member(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    project, asked = fake._writable(login, params["id"]), body["membership"]
    if login not in _MANAGERS:
        raise Refuse(403)
    roles = [role for role in _ROLES if role["id"] in asked["role_ids"]]
    people: dict[int, dict[str, Any]] = {number: {"id": number, "name": name} for number, name in PEOPLE.items()}
    people[8] = NOBODY
    if asked["user_id"] not in people:
        raise Refuse(422, "Principal cannot be blank")
    if asked["user_id"] in [one["user"]["id"] for one in members_of(fake, project["id"])]:
        raise Refuse(422, "User has already been taken")
    if not roles:
        raise Refuse(422, "Role cannot be empty")
    member = {"id": next(fake.objects.numbers), "project": named(project), "user": people[asked["user_id"]]}
    fake.objects.memberships.append(member | {"roles": roles})
    return 201, {"membership": member | {"roles": roles}}


def members_of(fake: FakeRedmine, project: int) -> list[dict[str, Any]]:
    return [one for one in fake.objects.memberships if one["project"]["id"] == project]


def _membership(fake: FakeRedmine, login: str, number: str) -> dict[str, Any]:
    found = [one for one in fake.objects.memberships if str(one["id"]) == number]
    if not found:
        raise Refuse(404)
    if login not in _MANAGERS:
        raise Refuse(403)
    return found[0]


def update_member(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    member = _membership(fake, login, params["id"])
    # It takes away all roles before it looks at the new ones.
    member["roles"] = [role for role in _ROLES if role["id"] in body["membership"]["role_ids"]]
    if not member["roles"]:
        raise Refuse(422, "Role cannot be empty")
    return 204, None


def delete_member(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    fake.objects.memberships.remove(_membership(fake, login, params["id"]))
    return 204, None


def list_roles(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    return 200, {"roles": _ROLES}


# ---- queries


def list_queries(fake: FakeRedmine, login: str, params: Mapping[str, str], body: Any) -> Answer:
    return page("queries", fake.objects.queries, params)


def check_query(fake: FakeRedmine, number: str) -> None:
    if number not in [str(one["id"]) for one in fake.objects.queries]:
        raise Refuse(404)


_NoReason = Refuse(422)
_NoReason.answer = (422, {"errors": []})

_Route = tuple[str, str, Callable[["FakeRedmine", str, Mapping[str, str], Any], Answer]]
_ID: Final = "(?P<id>[^/]+)"
_WIKI: Final = f"/projects/{_ID}/wiki"
_TITLE: Final = "(?P<title>[^./]+)"
ROUTES: Final[tuple[_Route, ...]] = (
    ("POST", rf"/projects/{_ID}/memberships\.json", create_member),
    ("PUT", rf"/memberships/{_ID}\.json", update_member),
    ("DELETE", rf"/memberships/{_ID}\.json", delete_member),
    ("GET", r"/roles\.json", list_roles),
    ("GET", r"/queries\.json", list_queries),
    ("GET", rf"/attachments/{_ID}\.json", get_attachment),
    ("GET", "/attachments/download/(?P<id>[0-9]+)", download),
    ("DELETE", rf"/attachments/{_ID}\.json", delete_attachment),
    ("POST", r"/uploads\.json", upload),
    ("GET", rf"{_WIKI}/index\.json", list_pages),
    ("GET", rf"{_WIKI}/{_TITLE}(?:/(?P<version>[0-9]+))?\.json", get_page),
    ("PUT", rf"{_WIKI}/{_TITLE}\.json", put_page),
    ("DELETE", rf"{_WIKI}/{_TITLE}\.json", delete_page),
    ("PUT", rf"/journals/{_ID}\.json", update_journal),
    ("POST", rf"/issues/{_ID}/relations\.json", create_relation),
    ("DELETE", rf"/relations/{_ID}\.json", delete_relation),
    ("POST", rf"/projects/{_ID}/versions\.json", create_version),
    ("GET", rf"/versions/{_ID}\.json", get_version),
    ("PUT", rf"/versions/{_ID}\.json", update_version),
    ("DELETE", rf"/versions/{_ID}\.json", delete_version),
    ("POST", rf"/projects/{_ID}/issue_categories\.json", create_category),
    ("GET", rf"/issue_categories/{_ID}\.json", get_category),
    ("PUT", rf"/issue_categories/{_ID}\.json", update_category),
    ("DELETE", rf"/issue_categories/{_ID}\.json", delete_category),
)
