"""Attachments from and to the directory that operators allow, and what is refused of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from tests.packs.redmine.office import TOOLS, Office
from tests.support.redmine import FakeRedmine
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from tools_app import engine
from tools_app.packs.redmine.attachments import MOST_BYTES
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolError

pytestmark = pytest.mark.django_db(transaction=True)
SCOPES = frozenset({"tools:list", "tools:read", "tools:execute"})
Call = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, settings: LazySettings) -> Path:
    root = tmp_path / "files"
    root.mkdir()
    settings.TOOLHUB_FILE_ROOT = root
    return root


@pytest.fixture
def call(office: Office, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Call:
    hub.add(*TOOLS.values())
    monkeypatch.setenv("REDMINE_HOST", office.url)
    monkeypatch.setenv("REDMINE_API_KEY", "key-of-manager")
    rebuild_catalog()

    def called(name: str, *, kind: str = "local", **arguments: Any) -> Any:
        caller = Caller(kind, f"{kind}:test", "test", SCOPES)
        return engine.call_sync(name, arguments, caller, door="code", options=engine.Options()).answer.value

    return called


def test_a_file_is_attached_and_saved_again(call: Call, folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "in" / "report.bin").write_bytes(b"\x00\x01\xff" * 1000)
    made = call("attach_file", issue_id=2, file_path="in/report.bin")["response"]["attachment"]
    assert (made["filename"], made["filesize"]) == ("report.bin", 3000)
    said = call("save_attachment", id=made["id"], file_path="in/copy.bin")["response"]
    assert said["message"] == f"Attachment #{made['id']} was successfully saved as in/copy.bin (3,000 bytes)."
    assert (folder / "in" / "copy.bin").read_bytes() == b"\x00\x01\xff" * 1000
    assert (folder / "in" / "copy.bin").stat().st_mode & 0o777 == 0o600
    call("save_attachment", id=made["id"])
    assert (folder / "report.bin").exists()


def test_nothing_is_overwritten_and_nothing_is_written_outside(call: Call, folder: Path) -> None:
    (folder / "kept.txt").write_text("kept")
    outside = folder.parent / "outside"
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "dangling.txt").symlink_to(outside / "new.txt")
    paths = ["kept.txt", "../x.txt", str(outside / "x.txt"), "link/x.txt", "dangling.txt", "none/x.txt", "..", "a\x00b"]
    for path in [*paths, ".", "/", "x" * 900]:
        with pytest.raises(ToolError, match="File cannot be created") as caught:
            call("save_attachment", id=1, file_path=path)
        assert str(folder.parent) not in str(caught.value.as_dict()).replace(str(outside / "x.txt"), "")
    assert (folder / "kept.txt").read_text() == "kept"
    assert list(outside.iterdir()) == []


def test_the_name_of_an_attachment_leads_nowhere_else(call: Call, folder: Path, redmine: FakeRedmine) -> None:
    redmine.issues[1]["attachments"][0]["filename"] = "../../a\\b/c.txt"
    call("save_attachment", id=1)
    assert [file.name for file in folder.iterdir()] == [".._.._a_b_c.txt"]


@pytest.mark.parametrize(("name", "arguments"), [("save_attachment", {"id": 1}), ("attach_file", {"issue_id": 2})])
def test_files_are_for_callers_on_the_same_machine(
    call: Call, folder: Path, redmine: FakeRedmine, name: str, arguments: dict[str, Any]
) -> None:
    (folder / "a.txt").write_text("a")
    with pytest.raises(ToolError, match="Permission denied: files can only be") as caught:
        call(name, kind="key", file_path="a.txt", **arguments)
    assert caught.value.code == "AUTHORIZATION_ERROR"
    assert [seen.method for seen in redmine.requests if seen.method != "GET"] == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"issue_id": 2}, "Give exactly one of text, base64 and file_path"),
        ({"issue_id": 2, "text": "a", "base64": "YQ=="}, "Give exactly one of text, base64 and file_path"),
        ({"issue_id": 2, "text": "a"}, "filename is required"),
        ({"issue_id": 2, "filename": "a", "base64": "not base64!"}, "it is not base64"),
        ({"filename": "a", "text": "a"}, "Give either issue_id, or project_id and wiki_page"),
        ({"filename": "a", "text": "a", "project_id": "alpha"}, "Give either issue_id, or project_id and wiki_page"),
        ({"issue_id": 2, "file_path": "none.txt"}, "File not found: none.txt"),
    ],
)
def test_what_cannot_be_attached_is_refused_before_redmine_is_asked(
    call: Call, folder: Path, redmine: FakeRedmine, arguments: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ToolError, match=reason):
        call("attach_file", **arguments)
    assert redmine.requests == []


def test_a_large_attachment_is_saved_and_not_answered(call: Call, folder: Path, redmine: FakeRedmine) -> None:
    redmine.objects.files[1] = b"x" * (MOST_BYTES + 1)
    redmine.issues[1]["attachments"][0]["filesize"] = MOST_BYTES + 1
    with pytest.raises(ToolError, match=r"it has 1,048,577 bytes, and answers have at most 1,048,576") as caught:
        call("get_attachment", id=1)
    assert "save_attachment" in caught.value.next_step
    call("save_attachment", id=1, file_path="large")
    assert (folder / "large").stat().st_size == MOST_BYTES + 1


def test_a_redmine_that_only_pretends_to_attach_is_noticed(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("PUT /issues/2", b"", status="204 No Content")
    ignored = office.refusal("manager", "attach_file", issue_id=2, filename="a.txt", text="a")
    assert ignored.message == "a.txt was not attached to issue #2: Redmine accepted the request but ignored it"
    redmine.breaks("POST /uploads", b"{}", status="201 Created")
    nothing = office.refusal("manager", "attach_file", issue_id=2, filename="a.txt", text="a")
    assert nothing.message == "Failed to attach file: Redmine did not return a token for it"


def test_an_attachment_that_cannot_be_read_back_is_reported(office: Office, redmine: FakeRedmine) -> None:
    redmine.breaks("GET /issues/2.json?include=attachments", b"{}")
    said = office.call("manager", "attach_file", issue_id=2, filename="a.txt", text="a")["response"]
    assert said["warnings"][0].startswith("The result could not be verified")


@pytest.mark.parametrize(("content", "kind"), [(b"", "text"), (b"\xef\xbb\xbfa", "text"), (b"a\x00", "base64")])
def test_what_is_text(office: Office, redmine: FakeRedmine, content: bytes, kind: str) -> None:
    redmine.objects.files[1] = content
    shown = office.call("manager", "get_attachment", id=1)["attachment"]
    assert {"text", "base64"} & shown.keys() == {kind}


def test_a_page_that_another_user_changes_meanwhile_is_reported(office: Office, redmine: FakeRedmine) -> None:
    page = {"project_id": "alpha", "title": "Wiki", "text": "mine", "version": 2}
    redmine.breaks("PUT /projects/alpha/wiki/Wiki", b"", status="409 Conflict")
    conflict = office.refusal("manager", "write_wiki_page", **page)
    assert conflict.message == "Failed to write wiki page: another user has changed it in the meantime"
    redmine.breaks("PUT /projects/alpha/wiki/Wiki", b"", status="204 No Content")
    other = office.refusal("manager", "write_wiki_page", **page)
    assert other.message == "Wiki page Wiki was not changed as requested: it has another text"


def test_a_parent_that_redmine_ignores_is_reported(office: Office, redmine: FakeRedmine) -> None:
    wiki = redmine.objects.pages[1, "Wiki"]
    wiki.append(wiki[-1] | {"text": "new", "version": 3})
    redmine.breaks("PUT /projects/alpha/wiki/Wiki", b"", status="204 No Content")
    said = office.call(
        "manager",
        "write_wiki_page",
        project_id="alpha",
        title="Wiki",
        text="new",
        version=3,
        parent_title="Child page",
    )["response"]
    assert said["message"] == "Wiki page Wiki was changed, but Redmine ignored parent_title."


def test_a_page_is_found_by_its_old_name(office: Office, redmine: FakeRedmine) -> None:
    redmine.objects.redirects[1, "Old"] = "Child_page"
    made = office.call("manager", "write_wiki_page", project_id="alpha", title="old", text="new", version=1)
    assert made["response"]["wiki_page"]["title"] == "Child_page"
    assert redmine.objects.pages[1, "Child_page"][-1]["text"] == "new"
