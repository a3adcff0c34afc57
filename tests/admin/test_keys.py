"""API keys: shown once, never again, and revoked for good."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import browser, call
from tests.admin.pages import page, sent
from tools_app import governance
from tools_app.base import secrets
from tools_app.models import ApiKey, AuditEntry

pytestmark = pytest.mark.django_db

KEYS = "/admin/tools_app/apikey/"
FORM: dict[str, object] = {"name": "agent", "scopes": ["tools:list"], "kinds": "all", "tools": "all"}
SECRET = re.compile(r"thub_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}")


@pytest.fixture
def keeper(db: None) -> Client:
    """The browser of somebody who may make and revoke keys."""
    return browser("keeper", "view_apikey", "add_apikey", "change_apikey", "view_auditentry")


def make(keeper: Client, name: str = "agent", **data: object) -> str:
    """Make a key in the browser; returns it."""
    response = keeper.post(f"{KEYS}add/", {**FORM, "name": name, "scopes": ["tools:list", "tools:execute"], **data})
    assert response.status_code == 200
    found: set[str] = set(SECRET.findall(response.content.decode()))
    assert len(found) == 1
    return found.pop()


def test_a_key_is_made_by_governance_and_works(keeper: Client) -> None:
    secret = make(keeper)
    key = ApiKey.objects.get()
    assert key.hash == secrets.key_hash(secret)
    assert key.scopes == ["tools:execute", "tools:list"]
    assert key.owner is not None
    assert key.owner.get_username() == "keeper"
    assert key.expires_at is None
    assert AuditEntry.objects.get(action="key.create").actor == "user:keeper"


def test_a_key_is_shown_once_and_never_again(keeper: Client) -> None:
    response = keeper.post(f"{KEYS}add/", FORM)
    html = response.content.decode()
    [secret] = set(SECRET.findall(html))
    # Once as the key, and in the text for each client.
    assert html.count(secret) == 1 + html.count('id="snippet-')
    assert "no-store" in response.headers["Cache-Control"]
    assert secret not in str(response.headers) + str(response.cookies)
    assert secret not in str(dict(keeper.session))
    key = ApiKey.objects.get()
    for address in (KEYS, f"{KEYS}{key.pk}/change/", "/admin/", "/admin/tools_app/auditentry/", f"{KEYS}add/"):
        assert secret not in page(keeper, address).html
    assert secret not in str(list(ApiKey.objects.values())) + str(list(AuditEntry.objects.values()))


def test_sending_the_form_again_makes_no_second_key(keeper: Client) -> None:
    make(keeper)
    shown = sent(keeper, f"{KEYS}add/", **FORM)
    assert SECRET.findall(shown.html) == []
    assert "already exists" in shown.text
    assert ApiKey.objects.count() == 1


def test_a_key_works_until_the_end_of_its_last_day(keeper: Client) -> None:
    make(keeper, last_day="2999-12-31")
    assert ApiKey.objects.get().expires_at == datetime(3000, 1, 1, tzinfo=UTC)


def test_a_key_gets_toolsets_kinds_and_a_limit(keeper: Client) -> None:
    for name in ("sums", "pages"):
        governance.create_toolset(name, actor=governance.trusted("test"))
    chosen = governance.create_toolset("mine", actor=governance.trusted("test"))
    data = {"tools": "some", "toolsets": [chosen.pk], "kinds": "read", "rate_calls": "5", "rate_seconds": "60"}
    made = keeper.post(f"{KEYS}add/", {**FORM, **data})
    assert "Access level: read-only" in made.content.decode()
    key = ApiKey.objects.get()
    assert [toolset.name for toolset in key.toolsets.all()] == ["mine"]
    assert (key.may_write, key.may_destroy, key.rate_calls, key.rate_seconds) == (False, False, 5, 60)
    assert AuditEntry.objects.get(action="key.create").changes["toolsets"] == [None, ["mine"]]
    shown = page(keeper, f"{KEYS}{key.pk}/change/")
    assert [box["value"] for box in shown.all("input", name="toolsets") if "checked" in box.attributes] == [
        str(chosen.pk)
    ]
    governance.revoke_key(key, actor=governance.trusted("test"))
    shown = page(keeper, f"{KEYS}{key.pk}/change/")
    assert f"/admin/tools_app/toolset/{chosen.pk}/change/" in shown.addresses
    assert "Read-only" in shown.text
    assert "5 per 60 s" in shown.text


@pytest.mark.parametrize(
    ("kinds", "columns"), [("all", (True, True)), ("write", (True, False)), ("read", (False, False))]
)
def test_a_key_may_use_the_chosen_kinds_of_tools(keeper: Client, kinds: str, columns: tuple[bool, bool]) -> None:
    make(keeper, kinds=kinds)
    assert ApiKey.objects.values_list("may_write", "may_destroy").get() == columns
    assert "all tools" in page(keeper, f"{KEYS}{ApiKey.objects.get().pk}/change/").text


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 101},
        {"scopes": []},
        {"scopes": ["tools:everything"]},
        {"last_day": "2001-01-01"},
        {"last_day": "soon"},
        {"last_day": "9999-12-31"},
        {"kinds": ""},
        {"kinds": "everything"},
        {"toolsets": ["7"]},
        {"tools": ""},
        {"tools": "some"},
        {"addresses": "everywhere"},
        {"addresses": "10.0.0.5/8"},
        {"rate_calls": "5"},
        {"rate_calls": "0", "rate_seconds": "60"},
        {"name": "a\x00b"},
    ],
)
def test_a_key_that_makes_no_sense_is_refused_in_the_form(keeper: Client, wrong: dict[str, object]) -> None:
    shown = sent(keeper, f"{KEYS}add/", **{**FORM, **wrong})
    assert "Please correct the error" in shown.text
    assert SECRET.findall(shown.html) == []
    assert not ApiKey.objects.exists()


def test_what_governance_refuses_is_a_message(keeper: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools_app.governance.keys.SCOPES", ("tools:read",))
    shown = sent(keeper, f"{KEYS}add/", **FORM)
    assert shown.status == 200
    assert shown.messages[0].startswith("Unknown scope 'tools:list'")
    assert not ApiKey.objects.exists()


def test_every_key_says_in_words_whether_it_works(keeper: Client) -> None:
    governance.create_key("fresh", actor=governance.trusted("test"))
    old, _ = governance.create_key("old", actor=governance.trusted("test"))
    lost, _ = governance.create_key("lost", actor=governance.trusted("test"))
    ApiKey.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(days=1))
    governance.revoke_key(lost, actor=governance.trusted("test"))
    shown = page(keeper, KEYS)
    found = {row.text.split()[0]: " ".join(row.text.split()) for row in shown.all("tr", class_="data-row")}
    assert " never never active" in found["fresh"]
    assert found["old"].endswith(" expired")
    assert found["lost"].endswith(" never never revoked just now")
    assert f"thub_{lost.prefix}_…" in found["lost"]
    for state, name in (("works", "fresh"), ("expired", "old"), ("revoked", "lost")):
        narrowed = page(keeper, f"{KEYS}?state={state}")
        assert [row.text.split()[0] for row in narrowed.all("tr", class_="data-row")] == [name]


def test_a_key_is_revoked_on_its_page(keeper: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    shown = page(keeper, f"{KEYS}{key.pk}/change/")
    form = next(form for form in shown.all("form") if form.attributes.get("action", "").endswith("/revoke/"))
    shown = sent(keeper, form["action"])
    assert shown.messages == ["agent is revoked. Requests with it are refused from now on."]
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert AuditEntry.objects.get(action="key.revoke").actor == "user:keeper"
    assert not [form for form in shown.all("form") if form.attributes.get("action", "").endswith("/revoke/")]
    assert sent(keeper, form["action"]).messages == ["agent has already been revoked."]
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1


def test_many_keys_are_revoked_after_a_question(keeper: Client) -> None:
    keys = [governance.create_key(name, actor=governance.trusted("test"))[0] for name in ("one", "two", "three")]
    chosen = [key.pk for key in keys[:2]]
    asked = sent(keeper, KEYS, action="revoke", _selected_action=chosen)
    assert "Revoke 2 keys?" in asked.text
    assert not ApiKey.objects.exclude(revoked_at=None).exists()
    form = {
        field["name"]: field["value"] for field in asked.all("input") if field.attributes.get("name") == "confirmed"
    }
    fields = [field["value"] for field in asked.all("input", name="_selected_action")]
    assert sorted(fields) == sorted(map(str, chosen))
    shown = sent(keeper, KEYS, action="revoke", _selected_action=fields, **form)
    assert shown.messages == ["Revoked: one, two."]
    assert sorted(ApiKey.objects.exclude(revoked_at=None).values_list("name", flat=True)) == ["one", "two"]
    again = sent(keeper, KEYS, action="revoke", _selected_action=fields)
    assert again.messages == ["These keys have already been revoked."]


def test_revoking_is_by_post_and_needs_its_permission(keeper: Client, viewer: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    assert keeper.get(f"{KEYS}{key.pk}/revoke/").status_code == 405
    assert keeper.post(f"{KEYS}4711/revoke/").status_code == 404
    assert viewer.post(f"{KEYS}{key.pk}/revoke/").status_code == 403
    sent(viewer, KEYS, action="revoke", _selected_action=[key.pk], confirmed="1")
    assert page(viewer, f"{KEYS}{key.pk}/change/").all("form", action=f"{KEYS}{key.pk}/revoke/") == []
    key.refresh_from_db()
    assert key.revoked_at is None


def test_making_a_key_needs_its_permission(viewer: Client, operator: Client) -> None:
    for browser_without in (viewer, operator):
        assert browser_without.get(f"{KEYS}add/").status_code == 403
        assert browser_without.post(f"{KEYS}add/", {"name": "x", "scopes": ["tools:list"]}).status_code == 403
        assert not [link for link in page(browser_without, KEYS).addresses if link.endswith("/add/")]
    assert not ApiKey.objects.exists()


def changed(key: ApiKey, **data: object) -> dict[str, object]:
    """What the form on the page of a key sends."""
    scopes = {"scopes": key.scopes, "kinds": "all", "tools": "all", "connections": ["environment"], "asks": ""}
    return {**scopes, "rate_calls": "", "rate_seconds": "", "addresses": "", "last_day": "", **data}


def test_a_key_is_changed_on_its_page(keeper: Client) -> None:
    mine = governance.create_toolset("mine", actor=governance.trusted("test"))
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    address = f"{KEYS}{key.pk}/change/"
    rights = {"kinds": "read", "tools": "some", "toolsets": [mine.pk], "asks": "writes", "last_day": "2999-12-31"}
    limits = {"rate_calls": "5", "rate_seconds": "60", "addresses": "10.0.0.0/8\r\n192.0.2.7", "connections": []}
    shown = sent(keeper, address, **changed(key, **rights, **limits))
    assert shown.messages == ["agent saved. Applies from the next call."]
    kept = ApiKey.objects.get()
    assert (kept.may_write, kept.may_destroy, kept.asks, kept.rate_calls) == (False, False, "writes", 5)
    assert (kept.addresses, kept.connection_names) == (["10.0.0.0/8", "192.0.2.7"], [])
    assert kept.expires_at == datetime(3000, 1, 1, tzinfo=UTC)
    assert [toolset.name for toolset in kept.toolsets.all()] == ["mine"]
    assert (kept.hash, kept.prefix, kept.owner) == (key.hash, key.prefix, key.owner)
    entry = AuditEntry.objects.get(action="key.change")
    assert (entry.actor, entry.subject) == ("user:keeper", "key:agent")
    assert entry.changes["toolsets"] == [None, ["mine"]]
    assert "Allowed addresses: 10.0.0.0/8, 192.0.2.7" in shown.text
    boxes = [box["value"] for box in shown.all("input", name="kinds") if "checked" in box.attributes]
    assert boxes == ["read"]
    assert [box["value"] for box in shown.all("input", name="tools") if "checked" in box.attributes] == ["some"]


def test_saving_the_form_of_a_key_as_it_is_changes_nothing(keeper: Client) -> None:
    ends = timezone.now() + timedelta(days=30, hours=3)
    key, _ = governance.create_key("agent", expires_at=ends, actor=governance.trusted("test"))
    day = ends.astimezone(UTC).date().isoformat()
    sent(keeper, f"{KEYS}{key.pk}/change/", **changed(key, last_day=day))
    assert ApiKey.objects.get().expires_at == ends
    assert not AuditEntry.objects.filter(action="key.change").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"tools": "some"},
        {"tools": ""},
        {"addresses": "10.0.0.5/8"},
        {"addresses": " ".join(f"10.0.0.{number}" for number in range(51))},
        {"kinds": "everything"},
        {"last_day": "2001-01-01"},
        {"connections": ["missing"]},
    ],
)
def test_a_wrong_change_is_refused_in_the_form(keeper: Client, wrong: dict[str, object]) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    kept = ApiKey.objects.values().get()
    assert "Please correct the error" in sent(keeper, f"{KEYS}{key.pk}/change/", **changed(key, **wrong)).text
    assert ApiKey.objects.values().get() == kept


def test_a_new_key_is_proposed_read_only_for_ninety_days_and_asks_for_which_tools(keeper: Client) -> None:
    shown = page(keeper, f"{KEYS}add/")
    assert [box["value"] for box in shown.all("input", name="kinds") if "checked" in box.attributes] == ["read"]
    [day] = shown.all("input", name="last_day")
    assert day["value"] == (timezone.now() + timedelta(days=90)).date().isoformat()
    assert not [box for box in shown.all("input", name="tools") if "checked" in box.attributes]
    assert "All tools of the hub, also future ones, but no tools of outside sources" in shown.text


def test_a_key_keeps_its_name_and_secret_and_is_not_deleted(chief: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    kept = ApiKey.objects.values().get()
    address = f"{KEYS}{key.pk}/change/"
    forged = {"name": "renamed", "hash": "0" * 64, "prefix": "x", "revoked_at": "2001-01-01"}
    chief.post(address, changed(key, **forged))
    assert ApiKey.objects.values().get() == kept
    assert key.hash not in page(chief, address).html
    assert chief.post(address.replace("change", "delete"), {"post": "yes"}).status_code == 403
    sent(chief, KEYS, action="delete_selected", _selected_action=[key.pk], post="yes")
    assert ApiKey.objects.values().get() == kept


def test_changing_needs_its_permission_and_a_key_that_works(keeper: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    address = f"{KEYS}{key.pk}/change/"
    looker = browser("looker", "view_apikey", "change_apikey")
    assert page(looker, address).all("input", name="kinds") == []
    assert looker.post(address, changed(key, kinds="read")).status_code == 403
    governance.revoke_key(key, actor=governance.trusted("test"))
    assert page(keeper, address).all("input", name="kinds") == []
    assert keeper.post(address, changed(key, kinds="read")).status_code == 403
    assert ApiKey.objects.get().may_write


# ---- list


def test_the_list_shows_what_distinguishes_keys(chief: Client) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"))
    test, soon = governance.trusted("test"), timezone.now() + timedelta(days=6)
    reader, _ = governance.create_key("reader", toolsets=["wiki"], may_write=False, expires_at=soon, actor=test)
    governance.create_key("writer", may_destroy=False, actor=test)
    for age in (0, 0, 62):
        call("echo", timezone.now() - timedelta(days=age), caller_id=f"key:{reader.pk}")
    shown = page(chief, KEYS)
    found = {row.text.split()[0]: " ".join(row.text.split()) for row in shown.all("tr", class_="data-row")}
    assert "Read-only wiki 2 none never" in found["reader"]
    assert "Read and write, not destructive all tools 0 none never never" in found["writer"]
    assert [mark.text.split()[0] for mark in shown.all("span", class_="hub-mark") if "in " in mark.text]


def test_keys_that_expire_or_are_unused_are_found(keeper: Client) -> None:
    now, test = timezone.now(), governance.trusted("test")
    governance.create_key("ending", expires_at=now + timedelta(days=6), actor=test)
    governance.create_key("later", expires_at=now + timedelta(days=8), actor=test)
    idle, _ = governance.create_key("idle", actor=test)
    ApiKey.objects.filter(pk=idle.pk).update(last_used_at=now - timedelta(days=31))
    busy, _ = governance.create_key("busy", actor=test)
    ApiKey.objects.filter(pk=busy.pk).update(last_used_at=now - timedelta(days=29))
    for state, names in (("expiring", ["ending"]), ("idle", ["idle"]), ("unused", ["ending", "later"])):
        rows = page(keeper, f"{KEYS}?state={state}").all("tr", class_="data-row")
        assert [row.text.split()[0] for row in rows] == names


def test_the_list_makes_as_many_queries_for_two_keys_as_for_twenty(chief: Client) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"))
    numbers = []
    for names in (range(2), range(2, 20)):
        for name in names:
            governance.create_key(f"key {name}", toolsets=["wiki"], actor=governance.trusted("test"))
        page(chief, KEYS)
        with CaptureQueriesContext(connection) as queries:
            page(chief, KEYS)
        numbers.append(len(queries))
    assert numbers[0] == numbers[1]


def test_a_key_shows_the_calls_that_were_made_with_it(chief: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    made, other = call("echo", caller_id=f"key:{key.pk}"), call("echo", caller_id=f"key:{key.pk + 1}")
    links = page(chief, f"{KEYS}{key.pk}/change/").addresses
    assert f"/admin/tools_app/call/{made.pk}/change/" in links
    assert f"/admin/tools_app/call/{other.pk}/change/" not in links


# ---- rotating


def rotation(keeper: Client, key: ApiKey) -> tuple[str, dict[str, str]]:
    """Where the form on a key's page goes, and what it sends."""
    shown = page(keeper, f"{KEYS}{key.pk}/change/")
    [form] = [form for form in shown.all("form") if form.attributes.get("action", "").endswith("/rotate/")]
    [prefix] = [field["value"] for field in shown.all("input", name="prefix") if form in field.parents]
    return form["action"], {"prefix": prefix, "grace": "24"}


def test_a_key_is_rotated_on_its_page_and_shown_once(keeper: Client) -> None:
    key, before = governance.create_key("agent", actor=governance.trusted("test"))
    address, form = rotation(keeper, key)
    response = keeper.post(address, form)
    html = response.content.decode()
    [secret] = set(SECRET.findall(html))
    assert "no-store" in response.headers["Cache-Control"]
    assert f"thub_{key.prefix}_… until" in html
    key.refresh_from_db()
    assert (key.hash, key.previous_hash) == (secrets.key_hash(secret), secrets.key_hash(before))
    assert AuditEntry.objects.get(action="key.rotate").actor == "user:keeper"
    listed = page(keeper, KEYS)
    assert f"thub_{key.prefix}_…" in listed.text
    assert f"thub_{key.previous_prefix}_…" in listed.text
    for shown in (listed, page(keeper, f"{KEYS}{key.pk}/change/"), page(keeper, "/admin/tools_app/auditentry/")):
        assert secret not in shown.html
        assert key.previous_hash not in shown.html


def test_sending_the_rotation_again_changes_nothing(keeper: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    address, form = rotation(keeper, key)
    keeper.post(address, form)
    kept = ApiKey.objects.values().get()
    assert sent(keeper, address, **form).messages == ["agent has already been rotated."]
    assert ApiKey.objects.values().get() == kept


def test_rotating_needs_its_permission_a_post_and_a_key_that_works(keeper: Client, viewer: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    address, form = rotation(keeper, key)
    assert keeper.get(address).status_code == 405
    assert viewer.post(address, form).status_code == 403
    assert keeper.post(address, {**form, "grace": "9999"}).status_code == 400
    assert "/rotate/" not in page(viewer, f"{KEYS}{key.pk}/change/").html
    governance.revoke_key(key, actor=governance.trusted("test"))
    assert "/rotate/" not in page(keeper, f"{KEYS}{key.pk}/change/").html
    assert "it cannot be rotated" in sent(keeper, address, **form).messages[0]
    assert ApiKey.objects.get().rotated_at is None


# ---- in words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scopes": ["tools:list", "tools:execute"]}, "Can list tools and call tools."),
        ({"scopes": ["admin:*"]}, "Can do everything that the REST API offers, including creating keys."),
        ({"scopes": []}, "Has no permissions."),
        ({}, "Tools: all"),
        ({"toolsets": ["sums", "pages"]}, "Tools: only pages and sums"),
        ({"may_destroy": False}, "Access level: read and write, not destructive"),
        ({"may_write": False}, "Access level: read-only"),
        ({"connections": []}, "Connections: none"),
        ({"rate": (100, 60)}, "Rate limit: 100 requests per 60 s"),
    ],
)
def test_a_key_says_what_it_may(keeper: Client, given: dict[str, Any], words: str) -> None:
    for name in ("sums", "pages"):
        governance.create_toolset(name, actor=governance.trusted("test"))
    key, _ = governance.create_key("agent", actor=governance.trusted("test"), **given)
    assert words in page(keeper, f"{KEYS}{key.pk}/change/").text


def test_keys_that_somebody_should_look_at_say_so(keeper: Client) -> None:
    now = timezone.now()
    governance.create_key("fine", actor=governance.trusted("test"))
    governance.create_key("ending", actor=governance.trusted("test"), expires_at=now + timedelta(days=5))
    idle, _ = governance.create_key("idle", actor=governance.trusted("test"))
    ApiKey.objects.filter(pk=idle.pk).update(created_at=now - timedelta(days=8))
    turned, _ = governance.create_key("turned", actor=governance.trusted("test"))
    governance.rotate_key(turned, grace=timedelta(days=2), actor=governance.trusted("test"))
    governance.create_key("gone", actor=governance.trusted("test"), expires_at=now - timedelta(days=1))
    shown = page(keeper, f"{KEYS}?state=attention")
    found = {row.text.split()[0]: " ".join(row.text.split()) for row in shown.all("tr", class_="data-row")}
    assert found.keys() == {"ending", "idle", "turned"}
    assert "active expires in" in found["ending"]
    assert "never used since it was created 1 week ago" in found["idle"]
    assert "expires in" in found["turned"]


def test_a_key_shows_what_was_done_with_it_by_month(chief: Client) -> None:
    key, _ = governance.create_key("agent", actor=governance.trusted("test"))
    now = timezone.now()
    call("echo", caller_id=f"key:{key.pk}")
    call("echo", caller_id=f"key:{key.pk}", status="failed", code="API_ERROR")
    call("echo", now - timedelta(days=62), caller_id=f"key:{key.pk}", status="refused", code="TOOL_DISABLED")
    call("echo", caller_id="key:999999")
    table = page(chief, f"{KEYS}{key.pk}/change/").all("table", class_="hub-table")[0]
    assert f"{now:%Y-%m} 2 1 0 {now - timedelta(days=62):%Y-%m} 1 0 1" in " ".join(table.text.split())
