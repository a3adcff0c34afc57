"""The admission test over REST, at the shell and in the admin, with a real server."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from tests.admin.pages import page, sent
from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tests.support import mcp_upstream
from tests.support.mcp_upstream import McpUpstream
from tools_app import governance
from tools_app.admin import source_trials
from tools_app.models import Admission, AuditEntry, Source

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/v1/sources/wiki/admission"


@pytest.fixture
def server() -> Iterator[McpUpstream]:
    with mcp_upstream.running() as running:
        running.tools = [mcp_upstream.tool("read", annotations={"readOnlyHint": True}), mcp_upstream.tool("write <b>")]
        yield running


@pytest.fixture
def wiki(server: McpUpstream) -> Source:
    by = governance.trusted("test")
    return governance.add_source("wiki", kind="mcp_http", location=server.url, internal=True, actor=by)


def test_over_rest(rest: Rest, make_key: MakeKey, wiki: Source, server: McpUpstream) -> None:
    adder, ops = make_key("adder", scopes=["sources:manage"]), make_key("ops", scopes=["tools:manage"])
    told = failure(rest.get(PATH, key=ops), 404, "NOT_FOUND")
    assert "no admission report" in told["error"]
    failure(rest.post(PATH, {}, key=ops), 403, "AUTHORIZATION_ERROR")
    failure(rest.post(PATH, {"callReadOnly": "yes"}, key=adder), 400, "VALIDATION_ERROR")
    report = rest.post(PATH, {"callReadOnly": True, "reason": "for the team"}, key=adder).json()
    check_form("AdmissionReport", report)
    assert (report["source"], report["epoch"], report["isCurrent"], report["server"]) == ("wiki", 1, True, "fake 1.0")
    assert (report["tools"], report["calledReadOnly"], report["changes"]) == (2, True, [])
    assert (report["comparedWith"], report["untrusted"]) == (None, True)
    assert report["figures"].keys() == {"coldSeconds", "warmSeconds", "tokens"}
    checks = {check["check"]: check for check in report["checks"]}
    assert checks["annotations"]["details"] == ["write <b>: does not say whether it only reads"]
    assert checks["arguments"]["state"] == "finding"
    assert checks["memory"]["nextStep"] is None
    assert {name for name, _ in server.calls} == {"read"}
    assert rest.get(PATH, key=ops).json() == report
    entry = AuditEntry.objects.get(action="source.admit")
    assert (entry.actor, entry.address, entry.reason) == ("key:adder", "127.0.0.1", "for the team")
    assert (entry.changes["called"], entry.changes["findings"]) == ([[], ["read"]], [None, 3])


def test_python_code_is_not_admitted(rest: Rest, make_key: MakeKey, hub: Any) -> None:
    path = "/v1/sources/tests.support.packs.small/admission"
    failure(rest.post(path, {}, key=make_key("adder", scopes=["sources:manage"])), 409, "CONFLICT")


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("source", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_at_the_shell(wiki: Source, server: McpUpstream) -> None:
    words = run("admit", "wiki")
    assert words.startswith("wiki: fake 1.0\nok   Starts and lists: fake 1.0; tools: 2\n")
    assert "!    Annotations: Tools that say whether they only read: 1 of 2\n    write <b>: does not say" in words
    assert "-    Validates its arguments: Calls of tools that say they only read were not permitted" in words
    assert "since the last report" not in words
    server.tools.pop()
    data = json.loads(run("admit", "wiki", "--json", "--call-read-only"))
    assert data["changes"] == [
        *(change for change in data["changes"] if change.startswith(("first start", "next start", "tokens -"))),
        "1 tool missing: write <b>",
        "Names and parameters: passed now",
        "Annotations: passed now",
        "Validates its arguments: has findings now",
    ]
    assert "since the last report: Validates its arguments: had findings, not tried now" in run("admit", "wiki")
    assert AuditEntry.objects.filter(action="source.admit", actor__startswith="command:").count() == 3


def test_in_the_admin(wiki: Source, server: McpUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, address = Client(), f"/admin/tools_app/source/{wiki.pk}"
    browser.force_login(User.objects.create_superuser("root"))
    assert "Run the admission test" in page(browser, f"{address}/change/").text
    assert "No report yet" in page(browser, f"{address}/admission/").text
    monkeypatch.setattr(source_trials, "SECONDS", 0.0)
    assert "Still running" in sent(browser, f"{address}/admit/", call_read_only="1").text
    monkeypatch.setattr(source_trials, "SECONDS", 60)
    shown = sent(browser, f"{address}/admit/", call_read_only="1")
    for words in ("3 findings", "write <b>: does not say whether it only reads", "read: accepts", "not tried"):
        assert words in shown.text, words
    assert "Since the last report" not in shown.text
    # The second look has waited for the same test.
    assert Admission.objects.count() == 1
    assert "3 findings" in page(browser, f"{address}/change/").text
    assert "No changes." in sent(browser, f"{address}/admit/", call_read_only="1").text
    exported = browser.get(f"{address}/admission/?format=json")
    assert exported["Content-Disposition"].startswith('attachment; filename="admission-wiki-')
    assert exported.json()["lines"][0]["check"] == "start"
    Source.objects.filter(pk=wiki.pk).update(epoch=2)
    assert "of another URL or command" in page(browser, f"{address}/admission/").text
    server.fail("*", status=401, times=0)
    assert "It cannot be used" in sent(browser, f"{address}/admit/").text
