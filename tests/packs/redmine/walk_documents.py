"""Files and wiki pages, on a real Redmine and ours."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.packs.redmine.office import Office
from tools_app.sdk.errors import ApiError, InvalidArgumentsError, NotFoundError, UpstreamValidationError

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xfe"


@pytest.fixture
def title(office: Office) -> Iterator[str]:
    """Of a wiki page of alpha, which is gone after the test."""
    name = f"Tmp_{uuid4().hex[:12]}"
    yield name
    if name in {page["title"] for page in office.call("admin", "list_wiki_pages", project_id="alpha")["wiki_pages"]}:
        office.call("admin", "delete_wiki_page", project_id="alpha", title=name)


def test_a_text_is_attached_read_and_deleted(office: Office) -> None:
    name = f"{uuid4().hex} é & <x>.txt"
    made = office.call(
        "manager",
        "attach_file",
        issue_id=2,
        filename=name,
        text="line 1\nlíne <2>",
        description="a & b",
        notes="See the file",
    )["response"]
    file = made["attachment"]
    assert (made["status"], file["description"], file["filesize"]) == ("success", "a & b", 16)
    # Redmine replaces what file systems do not take.
    assert file["filename"] == name.replace("<", "_").replace(">", "_")
    shown = office.call("limited", "get_attachment", id=file["id"])["attachment"]
    assert (shown["text"], shown["author"]["name"]) == ("line 1\nlíne <2>", "Mara Manager")
    issue = office.call("manager", "get_issue", id=2, include="attachments,journals")["issue"]
    assert file["id"] in [one["id"] for one in issue["attachments"]]
    assert issue["journals"][-1]["notes"] == "See the file"
    office.call("manager", "delete_attachment", id=file["id"])
    missing = office.refusal("manager", "get_attachment", id=file["id"])
    assert (type(missing), missing.message) == (NotFoundError, f"Attachment #{file['id']} not found")


def test_other_content_is_base64(office: Office) -> None:
    encoded = base64.b64encode(PNG).decode()
    sent = "\n".join([encoded[:10], encoded[10:]])
    file = office.call("manager", "attach_file", issue_id=2, filename="a.png", base64=sent)["response"]["attachment"]
    shown = office.call("manager", "get_attachment", id=file["id"])["attachment"]
    assert (base64.b64decode(shown["base64"]), "text" in shown) == (PNG, False)
    office.call("manager", "delete_attachment", id=file["id"])


def test_who_may_comment_may_attach(office: Office) -> None:
    made = office.call("limited", "attach_file", issue_id=3, filename="l.txt", text="mine")["response"]
    assert made["status"] == "success"
    denied = office.refusal("limited", "delete_attachment", id=made["attachment"]["id"])
    assert denied.message == "Permission denied: requires the permission to edit what it is attached to"
    office.call("manager", "delete_attachment", id=made["attachment"]["id"])


def test_a_content_over_the_limit_is_refused(office: Office) -> None:
    too_much = office.refusal("manager", "attach_file", issue_id=2, filename="x", text="x" * (1024 * 1024 + 1))
    assert too_much.message == (
        "Invalid value for parameter text: the file is too large; expected at most 1,048,576 bytes"
    )


def test_nothing_is_uploaded_for_an_issue_that_cannot_have_it(office: Office) -> None:
    assert office.refusal("manager", "attach_file", issue_id=999999, filename="x", text="x").message == (
        "Issue #999999 not found"
    )
    hidden = office.refusal("limited", "attach_file", issue_id=8, filename="x", text="x")
    assert hidden.message.startswith("Permission denied: requires")


def test_a_file_is_attached_to_a_wiki_page_whose_text_stays(office: Office, title: str) -> None:
    office.call("manager", "write_wiki_page", project_id="alpha", title=title, text="h1. A")
    made = office.call(
        "manager", "attach_file", project_id="Alpha", wiki_page=title, filename="w.txt", text="of a page"
    )["response"]
    assert made["message"] == f"w.txt was successfully attached to wiki page {title}."
    page = office.call("limited", "get_wiki_page", project_id="alpha", title=title)["wiki_page"]
    assert (page["text"], page["version"]) == ("h1. A", 1)
    assert [one["id"] for one in page["attachments"]] == [made["attachment"]["id"]]
    assert office.call("limited", "get_attachment", id=made["attachment"]["id"])["attachment"]["text"] == "of a page"
    office.call("manager", "delete_attachment", id=made["attachment"]["id"])


def test_wiki_pages_are_listed_and_read_in_each_version(office: Office) -> None:
    pages = {one["title"]: one for one in office.call("limited", "list_wiki_pages", project_id="Alpha")["wiki_pages"]}
    assert pages["Child_page"]["parent"] == {"title": "Wiki"}
    page = office.call("limited", "get_wiki_page", project_id="alpha", title="wiki")["wiki_page"]
    assert (page["title"], page["version"], page["text"][-14:]) == ("Wiki", 2, "[[Child_page]]")
    older = office.call("limited", "get_wiki_page", project_id="alpha", title="Wiki", version=1)["wiki_page"]
    assert older["text"] == "h1. Start\n\nfirst"
    assert office.call("limited", "get_wiki_page", project_id="alpha", title="straße & Ünïcode")["wiki_page"]["text"]
    assert office.call("manager", "list_wiki_pages", project_id="empty")["total_count"] == 0
    for arguments in ({"title": "No such"}, {"title": "Wiki", "version": 99}):
        assert isinstance(office.refusal("limited", "get_wiki_page", project_id="alpha", **arguments), NotFoundError)
    hidden = office.refusal("limited", "list_wiki_pages", project_id="beta")
    assert hidden.message.startswith("Permission denied: requires the permission “View wiki”")


def test_a_page_is_written_only_by_who_has_read_it(office: Office, title: str) -> None:
    def write(**arguments: object) -> dict[str, object]:
        answer: dict[str, object] = office.call(
            "manager", "write_wiki_page", **{"project_id": "alpha", "title": title, **arguments}
        )["response"]
        return answer

    made = write(text="h1. A & <b>", comments="new", parent_title="wiki")
    assert made["message"] == f"Wiki page {title} was successfully created."
    page = office.call("limited", "get_wiki_page", project_id="alpha", title=title)["wiki_page"]
    assert (page["text"], page["comments"], page["parent"]) == ("h1. A & <b>", "new", {"title": "Wiki"})
    for version in (None, 7):
        arguments = {} if version is None else {"version": version}
        refused = office.refusal(
            "manager", "write_wiki_page", project_id="alpha", title=title, text="h1. B", **arguments
        )
        assert isinstance(refused, InvalidArgumentsError)
        assert f"wiki page {title} is in version 1; expected the version that you have read" in refused.message
    assert write(text="h1. B", version=1)["message"] == f"Wiki page {title} was successfully changed."
    assert office.call("limited", "get_wiki_page", project_id="alpha", title=title)["wiki_page"]["version"] == 2
    office.call("manager", "delete_wiki_page", project_id="alpha", title=title)
    gone = office.refusal("manager", "delete_wiki_page", project_id="alpha", title=title)
    assert gone.message == f"Wiki page #{title} not found"
    refused = office.refusal("manager", "write_wiki_page", project_id="alpha", title=title, text="x", version=1)
    assert f"there is no wiki page {title}; expected no version, to create it" in refused.message


def test_a_page_with_characters_that_titles_do_not_have_is_found_again(office: Office, title: str) -> None:
    made = office.call(
        "manager", "write_wiki_page", project_id="alpha", title=f"{title[0].lower()}{title[1:]}./?", text="x"
    )
    assert made["response"]["wiki_page"]["title"] == title
    page = office.call("manager", "get_wiki_page", project_id="alpha", title=f"{title}.")["wiki_page"]
    assert page["title"] == title


def test_what_cannot_be_written_is_explained(office: Office, title: str) -> None:
    new = {"title": title, "text": "x"}
    closed = office.refusal("admin", "write_wiki_page", project_id="closed", **new)
    assert closed.message == "Failed to write wiki page: project “Closed project” is closed"
    assert office.refusal("admin", "write_wiki_page", project_id="nowhere", **new).message == (
        "Project #nowhere not found"
    )
    above = office.refusal("manager", "write_wiki_page", project_id="alpha", parent_title="No such", **new)
    assert above.message == "Wiki page #No_such not found"
    denied = office.refusal("limited", "write_wiki_page", project_id="alpha", **new)
    assert isinstance(denied, ApiError)
    assert denied.message.startswith("Permission denied: requires the permission “Edit wiki pages”")
    assert not isinstance(denied, UpstreamValidationError)
