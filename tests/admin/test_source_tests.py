"""Testing a source from its page, with real servers: what is shown, and what a slow one costs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.outside import make_source
from tests.admin.pages import Page, page, sent
from tests.support import mcp_upstream
from tests.support.mcp_upstream import McpUpstream
from tools_app.admin import source_trials
from tools_app.base import hub
from tools_app.models import AuditEntry, Source, SourceStatus, ToolRecord
from tools_app.upstream.children.supervisor import landlock

pytestmark = pytest.mark.django_db(transaction=True)

SOURCES = "/admin/tools_app/source/"


@pytest.fixture
def root(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    return browser


@pytest.fixture
def server() -> Iterator[McpUpstream]:
    with mcp_upstream.running() as running:
        running.tools = [mcp_upstream.tool("read"), mcp_upstream.tool("write <b>")]
        running.instructions = "<i>Always obey.</i>"
        yield running


@pytest.fixture
def home(settings: Any) -> Iterator[Path]:
    """Of a hub that may start children."""
    # Paths of sockets are short, those of pytest are not.
    path = Path(tempfile.mkdtemp(prefix="th-"))
    settings.TOOLHUB_HOME = path
    yield path
    hub.current().close()
    shutil.rmtree(path, ignore_errors=True)


def draft(server: McpUpstream, **values: Any) -> Source:
    return make_source(location=server.url, internal=True, enabled=False, status={"described_at": None}, **values)


def run_test(browser: Client, source: Source) -> Page:
    return sent(browser, f"{SOURCES}{source.pk}/test/")


def test_a_test_shows_what_the_server_has_and_records_nothing_of_it(root: Client, server: McpUpstream) -> None:
    source = draft(server)
    assert "Next steps" in page(root, f"{SOURCES}{source.pk}/change/").text
    shown = run_test(root, source)
    assert "The server answers" in shown.text
    for words in ("wiki_read", "wiki_write_b", "<i>Always obey.</i>", "Tokens when listed"):
        assert words in shown.text, words
    assert not ToolRecord.objects.filter(source=source).exists()
    assert SourceStatus.objects.get(source=source).server
    assert AuditEntry.objects.get(action="source.test").actor == "user:root"


def test_a_test_that_fails_says_why(root: Client, server: McpUpstream) -> None:
    source = draft(server)
    server.fail("*", status=401)
    shown = run_test(root, source)
    assert "The test failed" in shown.text
    assert "Source wiki cannot be used" in shown.text
    assert SourceStatus.objects.get(source=source).error in shown.text
    server.heal()
    assert "The server answers" in run_test(root, source).text
    assert SourceStatus.objects.get(source=source).error == ""


def test_a_slow_server_does_not_hang_the_page(root: Client, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_source(command=mcp_upstream.command(wait=0.5), enabled=False, status={"described_at": None})
    monkeypatch.setattr(source_trials, "SECONDS", 0.01)
    shown = run_test(root, source)
    assert "Still starting" in shown.text
    assert "Look again" in shown.text
    monkeypatch.setattr(source_trials, "SECONDS", 60)
    assert "The server answers" in run_test(root, source).text
    # The second look has waited for the same test.
    assert AuditEntry.objects.filter(action="source.test").count() == 1


def test_the_page_of_a_command_says_what_it_can_read(root: Client, home: Path, settings: Any) -> None:
    address = f"{SOURCES}{make_source(command=mcp_upstream.command(), enabled=True).pk}/change/"
    assert ("can read this hub’s files" in page(root, address).text) == (landlock.version() == 0)
    settings.TOOLHUB_ISOLATE_PROGRAMS = False
    assert "can read this hub’s files" in page(root, address).text


def test_the_page_of_a_command_shows_its_process_and_what_it_wrote(root: Client, home: Path) -> None:
    command = mcp_upstream.command(tools=[mcp_upstream.tool("read")])
    command[2] = "import sys; sys.stderr.write('warming <up>\\n'); sys.stderr.flush(); " + command[2]
    source = make_source(command=command, enabled=True)
    before = page(root, f"{SOURCES}{source.pk}/change/")
    assert "None. It is started at the next call or listing." in before.text
    assert "The server answers" in run_test(root, source).text
    after = page(root, f"{SOURCES}{source.pk}/change/")
    assert "warming <up>" in after.text
    assert "Process on this machine" in after.text
