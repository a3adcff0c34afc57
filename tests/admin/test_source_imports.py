"""Importing a client's file in the admin: shown first, then stored, by those who may."""

from __future__ import annotations

import json
import random
import string
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.admin.pages import Page, page, sent
from tests.admin.test_sources_outside import PASSWORD, client
from tools_app.admin import source_imports
from tools_app.models import AuditEntry, Connection, Source

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tools")]

SOURCES = "/admin/tools_app/source/"
IMPORT = f"{SOURCES}import/"
SERVERS = {
    "wiki-mcp": {"url": "https://wiki.example.com/mcp", "headers": {"Authorization": "Bearer ${WIKI_TOKEN}"}},
    "files": {"command": "npx", "args": ["files-server"], "env": {"FILES_KEY": "top-secret-key", "LEVEL": "info"}},
    "<b>shell</b>": {"command": "sh", "args": ["-c", "x"]},
}


@pytest.fixture
def root(db: None) -> Client:
    return client(superuser=True)


@pytest.fixture
def admin(db: None) -> Client:
    return client("admin")


def shown(browser: Client, servers: Any = None, **data: Any) -> Page:
    return sent(browser, IMPORT, text=json.dumps({"mcpServers": servers or SERVERS}), **data)


def fields(preview: Page, *servers: int, **data: Any) -> dict[str, Any]:
    """The form of the preview as a browser sends it."""
    names = {
        element["name"]: element["value"] for element in preview.all("input") if element["name"].startswith("name-")
    }
    questions = {
        element["name"]: element["value"] for element in preview.all("input") if element["name"].startswith("question-")
    }
    return {"draft": preview.one("input", name="draft")["value"], "server": list(servers), **names, **questions, **data}


def stored() -> list[str]:
    return sorted(Source.objects.filter(kind__in=Source.OUTSIDE).values_list("name", flat=True))


def test_shows_what_each_server_becomes_and_stores_nothing(root: Client) -> None:
    preview = shown(root)
    assert "values are missing: WIKI_TOKEN" in preview.text
    assert "npx: files-server has no version" in preview.text
    assert "it runs a line of a shell" in preview.text
    assert [element["value"] for element in preview.all("input", name="server")] == ["0", "1"]
    assert [element["value"] for element in preview.all("input") if element["name"].startswith("name-")] == [
        "wiki",
        "files",
    ]
    assert preview.one("input", id="value-0")["type"] == "password"
    assert "top-secret-key" not in preview.html
    assert "<b>shell" not in preview.html
    assert stored() == []


def test_a_superuser_imports_what_was_selected(root: Client) -> None:
    preview = shown(root)
    values = {"value-0": "abc", "name-0": "docs", "reason": "one hub"}
    for password, words in (("", "The password is wrong"), ("guess", "The password is wrong")):
        again = sent(root, IMPORT, **fields(preview, 0, 1, **values, password=password))
        assert words in again.text
        assert stored() == []
    # What was entered is kept, and not sent back.
    assert again.one("input", id="value-0").attributes.get("value") is None
    assert again.one("input", id="value-0")["placeholder"] == "entered"
    done = sent(root, IMPORT, **fields(again, 0, 1, password=PASSWORD, reason="one hub"))
    assert done.messages == ["2 sources are imported, and off: docs, files. Test them next."]
    assert stored() == ["docs", "files"]
    assert not Source.objects.filter(name__in=stored(), enabled=True).exists()
    assert sorted((row.pack, row.form, tuple(row.names)) for row in Connection.objects.all()) == [
        ("docs", "bearer", ("token",)),
        ("files", "environment", ("FILES_KEY", "LEVEL")),
    ]
    assert AuditEntry.objects.filter(action="source.create", reason="one hub", actor="user:root").count() == 2
    assert "2 exists" not in shown(root).text
    assert [element["value"] for element in shown(root).all("input", name="server")] == []


def test_a_server_can_be_left_out(root: Client) -> None:
    preview = shown(root)
    assert "Select at least one server." in sent(root, IMPORT, **fields(preview)).text
    assert "Enter the missing values of wiki-mcp" in sent(root, IMPORT, **fields(preview, 0)).text
    sent(root, IMPORT, **fields(preview, 0, **{"value-0": "abc"}))
    assert stored() == ["wiki"], "no command was selected, so no password is needed"


def test_an_administrator_imports_addresses_but_no_commands(admin: Client) -> None:
    preview = shown(admin)
    assert "is imported by a superuser" in preview.text
    assert [element["value"] for element in preview.all("input", name="server")] == ["0"]
    assert not preview.all("input", name="password")
    sent(admin, IMPORT, **fields(preview, 0, 1, **{"value-0": "abc"}, password=PASSWORD))
    assert stored() == ["wiki"]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_others_may_not(role: str) -> None:
    browser = client(role)
    assert browser.get(IMPORT).status_code == browser.post(IMPORT).status_code == 403
    assert IMPORT not in page(browser, SOURCES).addresses


def test_the_list_and_the_form_lead_to_it(admin: Client) -> None:
    assert IMPORT in page(admin, SOURCES).addresses
    assert IMPORT in page(admin, f"{SOURCES}add/").addresses
    assert page(admin, IMPORT).one("input", name="upload")["type"] == "file"


def test_a_file_is_uploaded(root: Client) -> None:
    upload = SimpleUploadedFile("config.toml", b'[mcp_servers.wiki]\nurl = "http://10.0.0.1/mcp"\n')
    refused = sent(root, IMPORT, upload=upload)
    assert "must begin with https://" in refused.text
    upload.seek(0)
    preview = sent(root, IMPORT, upload=upload, internal="on")
    sent(root, IMPORT, **fields(preview, 0))
    assert Source.objects.get(name="wiki").internal


def test_a_name_can_be_corrected(admin: Client) -> None:
    preview = shown(admin, {"a b": {"url": "https://wiki.example.com/mcp"}})
    again = sent(admin, IMPORT, **fields(preview, 0, **{"name-0": "Not A Name"}))
    assert "2 to 16 lowercase letters" in again.text
    assert again.one("input", name="name-0")["value"] == "Not A Name"
    sent(admin, IMPORT, **fields(again, 0, **{"name-0": "wiki"}))
    assert stored() == ["wiki"]


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "it is empty"), ("{", "it is not JSON"), ("[]", "it is not an object"), ("{}", "it has no servers")],
)
def test_says_what_is_wrong_with_the_file(admin: Client, text: str, why: str) -> None:
    answer = sent(admin, IMPORT, text=text)
    assert (answer.status, f"The file cannot be imported: {why}" in answer.text) == (200, True)


def test_a_file_that_no_form_can_carry_is_refused(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = "".join(random.Random(1).choices(string.printable[:90], k=750_000))
    content = json.dumps({"mcpServers": {}, "noise": noise}).encode()
    answer = sent(admin, IMPORT, upload=SimpleUploadedFile("large.json", content))
    assert "too large for this page" in answer.text


def test_what_was_sealed_for_another_user_or_long_ago_is_refused(root: Client, admin: Client, monkeypatch: Any) -> None:
    preview = shown(root, {"wiki": {"url": "https://wiki.example.com/mcp"}})
    form = fields(preview, 0)
    assert "open for too long" in str(sent(admin, IMPORT, **form).messages)
    assert "open for too long" in str(sent(root, IMPORT, **{**form, "draft": "gAAAA"}).messages)
    monkeypatch.setattr(source_imports, "SECONDS", -1)
    assert "open for too long" in str(sent(root, IMPORT, **form).messages)
    assert stored() == []
