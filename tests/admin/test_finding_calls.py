"""Calls are found by their arguments by who may read these, which is recorded; others learn nothing of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import VIEWS, browser, call
from tests.admin.pages import Page, page
from tests.admin.test_exports import auditor, taken
from tools_app.admin import exports, saved_views
from tools_app.admin.calls import CallAdmin
from tools_app.base import database
from tools_app.governance import Actor, note_export
from tools_app.journal import call_search, texts
from tools_app.models import AuditEntry, Call, PendingText, SavedView

CALLS = "/admin/tools_app/call/"
SEARCH = "/admin/find/"
HIDDEN = '{"message": "Salary of J. Doe: 93,500 EUR"}'


def rows(shown: Page) -> list[str]:
    return [row.text for row in shown.all("tr", class_="data-row")]


def indexed(text: str = HIDDEN, **given: Any) -> Call:
    made = call(given.pop("tool", "echo"), arguments=text, **given)
    PendingText.objects.create(call_id=made.pk)
    while texts.read_new():
        pass
    return made


@pytest.fixture
def reader(db: None) -> Client:
    return browser("reader", *VIEWS, "view_payload")


def test_a_call_is_found_by_its_arguments_where_that_is_asked_for(reader: Client) -> None:
    indexed()
    plain = page(reader, f"{CALLS}?q=93,500 EUR")
    assert rows(plain) == []
    assert "Not searched: arguments and answers." in plain.text
    [link] = [one for one in plain.all("a") if one.text.strip() == "Search arguments, too"]
    found = page(reader, f"{CALLS}{link['href']}")
    assert len(rows(found)) == 1
    assert "search also in: Arguments" in " ".join(found.text.split())
    assert "Arguments of calls that ended until" in found.text
    nothing = page(reader, f"{CALLS}?q=93,501 EUR&in=arguments")
    assert rows(nothing) == []
    assert "and stored arguments. Not searched: answers." in nothing.text
    assert "The index of arguments is being built: calls from" in nothing.text


def test_a_search_of_arguments_is_on_record_once_an_hour(reader: Client) -> None:
    for text in ("93,500", "93,500", "other", "password=hunter2222"):
        page(reader, f"{CALLS}?q={text}&in=arguments")
    page(reader, f"{CALLS}?q=not in arguments")
    entries = AuditEntry.objects.filter(action="payload.search", actor="user:reader").order_by("pk")
    assert [entry.changes["text"] for entry in entries] == ["93,500", "other", "password=***"]


def test_a_search_of_arguments_is_not_repeated_by_itself(reader: Client) -> None:
    indexed()
    assert page(reader, f"{CALLS}?q=93,500").all("button", id="hub-live-switch")
    found = page(reader, f"{CALLS}?q=93,500&in=arguments")
    assert len(rows(found)) == 1
    assert not found.all("button", id="hub-live-switch") + found.all("div", id="hub-rows")


def test_arguments_are_not_searched_where_that_cannot_be_recorded(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    indexed()
    monkeypatch.setattr("tools_app.governance.payloads.note_all", fail)
    shown = page(reader, f"{CALLS}?q=93,500&in=arguments")
    assert rows(shown) == []
    assert "Not searched: arguments and answers." in shown.text


def test_who_may_not_read_arguments_learns_nothing_of_them(db: None) -> None:
    """Neither by rows nor by counts, nor by what the database is asked, which is also what takes time."""
    indexed()
    viewer = browser("viewer", *VIEWS)

    def asked(query: str) -> tuple[str, list[str]]:
        with CaptureQueriesContext(connection) as captured:
            shown = page(viewer, f"{CALLS}?{query}")
        assert shown.status == 200
        times = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.\d]*")
        return " ".join(shown.text.split()), [times.sub("(time)", one["sql"]) for one in captured]

    asked("q=93,500")
    for right, wrong in (("93,500", "93,501"), ("J.", "J;")):
        for also in ("", "&in=arguments"):
            (text, statements), (other_text, other_statements) = asked(f"q={right}{also}"), asked(f"q={wrong}{also}")
            assert text.replace(right, wrong) == other_text
            assert [sql.replace(right, wrong).replace(right.upper(), wrong.upper()) for sql in statements] == [
                sql.replace(right.upper(), wrong.upper()) for sql in other_statements
            ]
            for sql in statements:
                assert "calltext" not in sql
                assert '"arguments"' not in sql
            assert "Search arguments" not in text
            assert "index of arguments" not in text
    palette = json.loads(viewer.get(f"{SEARCH}?q=93,500&format=json").content)
    assert [len(group["results"]) for group in palette["groups"]] == [1]
    assert not AuditEntry.objects.filter(action="payload.search").exists()
    assert viewer.get(f"{CALLS}?arguments__contains=93,500").status_code == 400


def test_the_palette_offers_the_search_of_arguments_to_who_may(reader: Client) -> None:
    [group] = json.loads(reader.get(f"{SEARCH}?q=93,500&format=json").content)["groups"]
    assert [one["address"] for one in group["results"]] == [f"{CALLS}?q=93%2C500", f"{CALLS}?q=93%2C500&in=arguments"]
    assert not AuditEntry.objects.filter(action="payload.search").exists(), "an offer is not a search"


def test_a_search_has_each_call_once_however_often_it_matches(db: None) -> None:
    made = [
        call("tracker_get", timezone.now() - timedelta(minutes=number), error="tracker said no", code="TRACKER")
        for number in range(5)
    ]
    assert call_search.find("tracker", Call.objects.all(), 4).ids == [one.pk for one in made[:4]]


@pytest.mark.anyio
@pytest.mark.django_db(transaction=True)
async def test_an_export_searches_once_and_has_what_the_list_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "AT_ONCE", 2)
    hidden = [await database.run(indexed) for _ in range(5)]
    other = await database.run(partial(call, "eur_rates"))
    reading = await database.run(auditor, "view_payload")
    address = f"{CALLS}export/?q=eur&in=arguments&format=json"
    told = json.loads(await taken(reading, address))
    assert [row["id"] for row in told["rows"]] == [other.pk, *(one.pk for one in reversed(hidden))]
    assert told["complete"]

    def counts() -> tuple[int, int]:
        events = AuditEntry.objects.filter(actor="user:auditor")
        return events.filter(action="payload.search").count(), events.filter(action="list.export").count()

    assert await database.run(counts) == (1, 1)
    monkeypatch.setattr(exports, "MOST_ROWS", 3)
    cut = json.loads(await taken(reading, address))
    assert (len(cut["rows"]), cut["complete"]) == (3, False)
    monkeypatch.undo()

    def demote() -> None:
        from django.contrib.auth.models import User

        User.objects.get(username="auditor").user_permissions.remove(
            *User.objects.get(username="auditor").user_permissions.filter(codename="view_payload")
        )

    await database.run(demote)
    viewing = json.loads(await taken(reading, address))
    assert [row["id"] for row in viewing["rows"]] == [other.pk]


# ---- saved views


def post(client: Client, action: str, *arguments: int, **data: str) -> str:
    path = {"save": "save/", "edit": "{}/edit/", "delete": "{}/delete/"}[action].format(*arguments)
    response = client.post(f"{CALLS}views/{path}", data, follow=True)
    assert response.status_code == 200
    return response.content.decode()


def test_a_view_is_saved_shared_renamed_and_deleted(db: None) -> None:
    ann, ben = browser("ann", *VIEWS, "add_savedview"), browser("ben", *VIEWS)
    call("echo")
    listed = page(ann, f"{CALLS}?status=failed&since=24h&p=2")
    assert [field["value"] for field in listed.all("input") if field.attributes.get("name") == "query"] == [
        "since=24h&status=failed"
    ]
    post(ann, "save", name="  Failed   today ", query="status=failed&since=24h&p=3&evil=1")
    view = SavedView.objects.get()
    assert (view.name, view.query, view.is_shared) == ("Failed today", "since=24h&status=failed", False)
    address = f"{CALLS}views/{view.pk}/"
    assert ann.get(address)["Location"] == f"{CALLS}?since=24h&status=failed"
    assert ben.get(address).status_code == 404
    assert "Failed today" not in page(ben, CALLS).text + page(ben, f"{CALLS}views/").text
    assert "Failed today" in page(ann, CALLS).text
    post(ann, "edit", view.pk, name="Failed", shared="1")
    assert ben.get(address)["Location"] == f"{CALLS}?since=24h&status=failed"
    assert "shared by ann" in page(ben, f"{CALLS}views/").text
    assert "?since=24h&status=failed" in page(ben, CALLS).addresses
    for path in ("edit", "delete"):
        assert "You have no such saved view" in post(ben, path, view.pk, name="mine")
    post(ann, "delete", view.pk)
    assert not SavedView.objects.exists()
    entries = AuditEntry.objects.filter(subject=f"view:{view.pk}").order_by("pk")
    assert [(entry.action, entry.changes) for entry in entries] == [
        ("view.save", {"name": [None, "Failed today"], "shared": [None, False]}),
        (
            "view.change",
            {
                "name": ["Failed today", "Failed"],
                "shared": [False, True],
                "query": [None, "since=24h&status=failed"],
            },
        ),
        ("view.delete", {"name": ["Failed", None]}),
    ]


def test_a_view_has_every_filter_of_the_list() -> None:
    filters = {f"{one}__exact" if isinstance(one, str) else one.parameter_name for one in CallAdmin.list_filter}
    assert filters <= {*saved_views.NAMES}


def test_who_may_not_share_any_more_cannot_rename_for_everybody(db: None) -> None:
    ann = browser("ann", *VIEWS, "add_savedview")
    post(ann, "save", name="shared", query="q=a", shared="1")
    view = SavedView.objects.get()
    view.owner.user_permissions.remove(*view.owner.user_permissions.filter(codename="add_savedview"))
    assert "Permission denied" in post(ann, "edit", view.pk, name="for everybody", shared="1")
    assert SavedView.objects.get().name == "shared"
    post(ann, "edit", view.pk, name="mine", shared="")
    assert SavedView.objects.values_list("name", "is_shared").get() == ("mine", False)


def test_queries_on_record_have_no_secrets(db: None) -> None:
    ann = browser("ann", *VIEWS, "add_savedview")
    post(ann, "save", name="shared", query="q=password%3Dhunter2222&status=failed", shared="1")
    assert SavedView.objects.get().query == "q=password%3Dhunter2222&status=failed", "a search that works"
    note_export("calls", payloads=False, filters="q=password%3Dhunter2222&tool=", actor=Actor("command:test", None))
    view, export = AuditEntry.objects.filter(action__in=["view.save", "list.export"]).order_by("pk")
    assert view.changes["query"] == [None, "q=password%3D%2A%2A%2A&status=failed"]
    assert export.changes["filters"] == "q=password%3D%2A%2A%2A&tool="


def test_views_have_limits(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, ben = browser("ann", *VIEWS, "add_savedview"), browser("ben", *VIEWS)
    assert "A name has 1 to 80 characters" in post(ann, "save", name="", query="q=a")
    assert "A name has 1 to 80 characters" in post(ann, "save", name="x" * 81, query="q=a")
    assert "at most 2,000 characters" in post(ann, "save", name="x", query=f"q={'x' * 2_000}")
    assert "A view has a search or a filter" in post(ann, "save", name="x", query="p=1")
    assert "Permission denied" in post(ben, "save", name="x", query="q=a", shared="1")
    post(ann, "save", name="x", query="q=a")
    assert "another view with the name" in post(ann, "save", name="x", query="q=b")
    monkeypatch.setattr("tools_app.governance.saved_views.MOST_OWN", 1)
    assert "You have 1 saved views" in post(ann, "save", name="y", query="q=b")
    monkeypatch.setattr("tools_app.governance.saved_views.MOST_SHARED", 0)
    assert "0 views are shared" in post(ann, "edit", SavedView.objects.get().pk, name="x", shared="1")
    assert list(SavedView.objects.values_list("name", "is_shared")) == [("x", False)]


def test_an_administrator_deletes_what_others_share_and_nothing_private(db: None, chief: Client) -> None:
    ann = browser("ann", *VIEWS, "add_savedview")
    post(ann, "save", name="shared", query="q=a", shared="1")
    post(ann, "save", name="private", query="q=a")
    shared, private = (SavedView.objects.get(name=name).pk for name in ("shared", "private"))
    post(chief, "delete", shared)
    post(chief, "delete", private)
    assert list(SavedView.objects.values_list("name", flat=True)) == ["private"]


@pytest.mark.parametrize("number", [2, 40])
def test_pages_of_views_take_as_many_queries_however_many_there_are(
    chief: Client, django_assert_max_num_queries: Callable[..., Any], number: int
) -> None:
    from django.contrib.auth.models import User

    owners = [User.objects.create(username=f"user {one}") for one in range(number)]
    SavedView.objects.bulk_create(
        SavedView(name=f"view {one.pk}", owner=one, is_shared=True, query="q=a", created_at=timezone.now())
        for one in owners
    )
    page(chief, f"{CALLS}views/")
    with django_assert_max_num_queries(8):
        assert "view" in page(chief, f"{CALLS}views/").text
    with django_assert_max_num_queries(12):
        page(chief, CALLS)
