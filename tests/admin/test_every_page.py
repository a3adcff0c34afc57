"""Every page of the admin that the URLs have: its name, its weight, and what it costs when there is much to show."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import agent, approval, browser_session, standing_approval
from tests.admin.pages import page
from tests.test_matrix import address_of, pages, subjects
from tools_app import governance
from tools_app.alerts.routing import new_delivery
from tools_app.models import (
    AlertRule,
    AuditEntry,
    Call,
    CallHour,
    Connection,
    Definition,
    ErrorGroup,
    ErrorLog,
    Source,
    SourceStatus,
    Stop,
    ToolRecord,
)
from tools_app.models.alerts import Event, new_alert
from tools_app.models.figures import HOUR, beginning

__all__ = ["subjects"]  # a fixture

pytestmark = pytest.mark.django_db

MOST_QUERIES: Final = 60
# Of a page alone, compressed. What it loads is measured in a browser.
MOST_BYTES: Final = 100_000
# Django's own, a part of a page, and what works in threads of its own.
NO_PAGES: Final = {"jsi18n", "autocomplete", "view_on_site", "logout"}


def fill(many: int) -> None:
    """This many of everything that a list or a card can show."""
    now, mark = timezone.now(), secrets.token_hex(4)
    numbers = range(many)
    names = [f"tool_{mark}_{n}" for n in numbers]
    sources = Source.objects.bulk_create(
        Source(name=prefix, prefix=prefix, kind="mcp_http", location="http://127.0.0.1:9/")
        for prefix in (f"s{mark}{n}" for n in numbers)
    )
    SourceStatus.objects.bulk_create(SourceStatus(source=one, availability="down", error="down") for one in sources)
    tools = ToolRecord.objects.bulk_create(
        ToolRecord(name=name, folded_name=name, original_name=name, source=sources[0], source_kind="mcp_http")
        for name in names
    )
    Definition.objects.bulk_create(
        Definition(tool=tool, hash=secrets.token_hex(32), version="1", body={"name": tool.name}) for tool in tools
    )
    Connection.objects.bulk_create(
        Connection(name=f"c-{mark}-{n}", pack="desk", sealed=b"", healthy=False, health="down") for n in numbers
    )
    Stop.objects.bulk_create(Stop(kind="pack", name=f"p-{mark}-{n}", by="user:x") for n in numbers)
    User.objects.bulk_create(User(username=f"u-{mark}-{n}", is_staff=True) for n in numbers)
    Group.objects.bulk_create(Group(name=f"g-{mark}-{n}") for n in numbers)
    AuditEntry.objects.bulk_create(
        AuditEntry(actor="user:x", action="tool.enable", subject=name, changes={"enabled": True}) for name in names
    )
    groups = ErrorGroup.objects.bulk_create(
        ErrorGroup(
            fingerprint=secrets.token_hex(16), tool_name="echo", code="API_ERROR", message="no", count=1,
            first_seen_at=now, last_seen_at=now,
        )
        for _ in numbers
    )  # fmt: skip
    calls = Call.objects.bulk_create(
        Call(
            id=secrets.token_hex(16), tool_name="echo", door="mcp", caller_kind="key", caller_id=f"key:{n}",
            caller_name=f"k{n}", connection="mine", status="failed", code="API_ERROR", error="no",
            error_id=secrets.token_hex(16), started_at=now, finished_at=now, duration_ms=5,
        )
        for n in numbers
    )  # fmt: skip
    ErrorLog.objects.bulk_create(
        ErrorLog(
            id=made.error_id, group=group, call_id=made.id, tool_name="echo", door="mcp", code="API_ERROR",
            message="no", created_at=now,
        )
        for made, group in zip(calls, groups, strict=True)
    )  # fmt: skip
    CallHour.objects.bulk_create(
        CallHour(
            hour=beginning(now, HOUR), tool_name=name, caller_id=f"key:{n}", caller_name=f"k{n}",
            status="failed", code=mark, calls=1,
        )
        for n, name in enumerate(names)
    )  # fmt: skip
    rule, by = AlertRule.objects.order_by("pk")[0], governance.trusted("test")
    toolsets = [governance.create_toolset(f"ts-{mark}-{n}", names=["echo"], actor=by) for n in numbers]
    chief = User.objects.get(username="chief")
    for number in numbers:
        governance.create_key(f"key-{mark}-{number}", toolsets=[toolsets[number].name], actor=by)
        approval(tool_name="echo")
        standing_approval()
        agent(client=f"client-{number}")
        browser_session(chief)
        alert = new_alert(Event.STOP_SET, f"{mark}{number}", now, details={"kind": "hub", "what": "the hub"})
        alert.save()
        new_delivery(rule, now, alert=alert, state="failed").save()


def addresses(subjects: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The name and the address of every page that can be looked at."""
    for name in sorted(pages() - NO_PAGES):
        address = address_of(name, subjects)
        yield name, address
    for by in ("tool", "source"):
        yield "tools_app_usage", f"/admin/usage/?by={by}&since=30d"


def test_every_page_is_light_and_costs_as_many_queries_for_a_hundred_rows_as_for_two(
    subjects: dict[str, Any], chief: Client
) -> None:
    def measured() -> dict[str, tuple[int, int]]:
        """Address → number of queries, and bytes over the wire."""
        found = {}
        for name, address in addresses(subjects):
            with CaptureQueriesContext(connection) as made:
                response = chief.get(address)
            if response.status_code == 200 and "text/html" in response["Content-Type"]:
                content = response.getvalue() if response.streaming else response.content
                found[f"{name} {address}"] = (len(made), len(gzip.compress(content)))
        return found

    fill(2)
    measured()  # what is read once is read now
    few = measured()
    fill(100)
    measured()
    many = measured()
    assert len(few) >= 50, sorted(few)
    assert few.keys() == many.keys()
    dearer = {page: (few[page][0], many[page][0]) for page in few if many[page][0] > few[page][0]}
    assert not dearer
    assert {page: queries for page, (queries, _) in many.items() if queries > MOST_QUERIES} == {}
    assert {page: size for page, (_, size) in many.items() if size > MOST_BYTES} == {}


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_menu_and_the_pages_it_leads_to_have_the_same_names(tools: None, chief: Client, language: str) -> None:
    chief.cookies["toolhub_language"] = language
    start = page(chief, "/admin/")
    menu = start.one("nav", id="nav-sidebar")
    links = [link for link in start.all("a") if menu in link.parents and link["href"].startswith("/admin/")]
    named = {}
    for link in links:
        words = [span for span in start.all("span") if span.parents[-1] is link and not span.attributes.get("class")]
        if words:
            named[link["href"]] = " ".join(words[0].text.split())
    assert len(named) >= 20
    wrong = {}
    for address, name in named.items():
        shown = page(chief, address)
        assert shown.one("html")["lang"] == language
        crumbs, title = (" ".join(one.text.split()) for one in (shown.one("h1"), shown.one("title")))
        if (crumbs.split(" \u203a ")[-1], title.split(" | ")[0]) != (name, name):
            wrong[name] = (crumbs, title)
    assert not wrong
