"""API keys: shown once, never again, and revoked for good."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin.conftest import browser, call
from tests.admin.pages import page, sent
from tools_app import governance, secrets
from tools_app.models import ApiKey, AuditEntry

pytestmark = pytest.mark.django_db

KEYS = "/admin/tools_app/apikey/"
FORM: dict[str, object] = {"name": "agent", "scopes": ["tools:list"], "kinds": "all"}
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
    assert html.count(secret) == 1
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
        governance.create_toolset(name, actor="test")
    chosen = governance.create_toolset("mine", actor="test")
    data = {"toolsets": [chosen.pk], "kinds": "read", "rate_calls": "5", "rate_seconds": "60"}
    made = keeper.post(f"{KEYS}add/", {**FORM, **data})
    assert "only tools that read" in made.content.decode()
    key = ApiKey.objects.get()
    assert [toolset.name for toolset in key.toolsets.all()] == ["mine"]
    assert (key.may_write, key.may_destroy, key.rate_calls, key.rate_seconds) == (False, False, 5, 60)
    assert AuditEntry.objects.get(action="key.create").changes["toolsets"] == [None, ["mine"]]
    shown = page(keeper, f"{KEYS}{key.pk}/change/")
    assert f"/admin/tools_app/toolset/{chosen.pk}/change/" in shown.addresses
    assert "Only tools that read" in shown.text
    assert "5 requests in 60 s" in shown.text


@pytest.mark.parametrize(
    ("kinds", "columns"), [("all", (True, True)), ("write", (True, False)), ("read", (False, False))]
)
def test_a_key_may_use_the_chosen_kinds_of_tools(keeper: Client, kinds: str, columns: tuple[bool, bool]) -> None:
    make(keeper, kinds=kinds)
    assert ApiKey.objects.values_list("may_write", "may_destroy").get() == columns
    assert "none: every tool there is" in page(keeper, f"{KEYS}{ApiKey.objects.get().pk}/change/").text


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
    monkeypatch.setattr(governance, "SCOPES", ("tools:read",))
    shown = sent(keeper, f"{KEYS}add/", **FORM)
    assert shown.status == 200
    assert shown.messages[0].startswith("Unknown scope 'tools:list'")
    assert not ApiKey.objects.exists()


def test_every_key_says_in_words_whether_it_works(keeper: Client) -> None:
    governance.create_key("fresh", actor="test")
    old, _ = governance.create_key("old", actor="test")
    lost, _ = governance.create_key("lost", actor="test")
    ApiKey.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(days=1))
    governance.revoke_key(lost, actor="test")
    shown = page(keeper, KEYS)
    found = {row.text.split()[0]: " ".join(row.text.split()) for row in shown.all("tr", class_="data-row")}
    assert " works never never" in found["fresh"]
    assert " expired never " in found["old"]
    assert " revoked just now never" in found["lost"]
    assert f"thub_{lost.prefix}_…" in found["lost"]
    for state, name in (("works", "fresh"), ("expired", "old"), ("revoked", "lost")):
        narrowed = page(keeper, f"{KEYS}?state={state}")
        assert [row.text.split()[0] for row in narrowed.all("tr", class_="data-row")] == [name]


def test_a_key_is_revoked_on_its_page(keeper: Client) -> None:
    key, _ = governance.create_key("agent", actor="test")
    shown = page(keeper, f"{KEYS}{key.pk}/change/")
    form = next(form for form in shown.all("form") if form.attributes.get("action", "").endswith("/revoke/"))
    shown = sent(keeper, form["action"])
    assert shown.messages == ["agent is revoked; the next request with it is refused."]
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert AuditEntry.objects.get(action="key.revoke").actor == "user:keeper"
    assert not [form for form in shown.all("form") if form.attributes.get("action", "").endswith("/revoke/")]
    assert sent(keeper, form["action"]).messages == ["agent was revoked already."]
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1


def test_many_keys_are_revoked_after_a_question(keeper: Client) -> None:
    keys = [governance.create_key(name, actor="test")[0] for name in ("one", "two", "three")]
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
    assert again.messages == ["These keys are revoked already."]


def test_revoking_is_by_post_and_needs_its_permission(keeper: Client, viewer: Client) -> None:
    key, _ = governance.create_key("agent", actor="test")
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


def test_a_key_is_neither_changed_nor_deleted(chief: Client) -> None:
    key, _ = governance.create_key("agent", actor="test")
    kept = ApiKey.objects.values().get()
    address = f"{KEYS}{key.pk}/change/"
    changed = {"name": "renamed", "scopes": ["admin:*"], "hash": "0" * 64, "prefix": "x", "revoked_at": ""}
    assert chief.post(address, changed).status_code == 403
    assert ApiKey.objects.values().get() == kept
    assert key.hash not in page(chief, address).html
    assert chief.post(address.replace("change", "delete"), {"post": "yes"}).status_code == 403
    sent(chief, KEYS, action="delete_selected", _selected_action=[key.pk], post="yes")
    assert ApiKey.objects.values().get() == kept


def test_a_key_shows_the_calls_that_were_made_with_it(chief: Client) -> None:
    key, _ = governance.create_key("agent", actor="test")
    made, other = call("echo", caller_id=f"key:{key.pk}"), call("echo", caller_id=f"key:{key.pk + 1}")
    links = page(chief, f"{KEYS}{key.pk}/change/").addresses
    assert f"/admin/tools_app/call/{made.pk}/change/" in links
    assert f"/admin/tools_app/call/{other.pk}/change/" not in links
