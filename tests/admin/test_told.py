"""What the admin says where there is nothing to show: a page that helps on, never a bare one."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client, override_settings

from tests.admin.conftest import browser, call
from tests.admin.pages import Page, page
from tools_app import governance

pytestmark = pytest.mark.django_db

CALLS = "/admin/tools_app/call/"


def told(client: Client, address: str, status: int) -> Page:
    answer = client.get(address)
    assert answer.status_code == status
    shown = Page(answer.content.decode(), status)
    assert [link["href"] for link in shown.all("a", class_="hub-link")] == ["/admin/"]
    assert len(shown.all("main")) == len(shown.all("h1")) == 1
    return shown


def test_an_address_that_leads_nowhere_leads_to_the_overview(viewer: Client) -> None:
    for address in ("/admin/nothing/", "/admin/tools_app/nothing/"):
        assert told(viewer, address, 404).one("h1").text.strip() == "Page not found"


def in_role(role: str) -> Client:
    user = User.objects.create_user(f"a-{role}")
    governance.set_role(user, role, actor=governance.trusted("test"))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(
    ("role", "address", "words"),
    [
        ("viewer", "/admin/auth/user/", "This needs the role admin . You have: viewer ."),
        ("viewer", "/admin/tools_app/apikey/add/", "This needs the role admin . You have: viewer ."),
        ("viewer", "/admin/tools_app/toolrecord/many/", "This needs the role operator . You have: viewer ."),
        ("operator", "/admin/auth/group/add/", "This needs the role admin . You have: operator ."),
        ("admin", "/admin/tools_app/process/settings/", "This is for superusers. You have: admin ."),
        ("superuser", "/admin/tools_app/call/add/", "This cannot be changed here, with any role."),
    ],
)
def test_who_may_not_is_told_which_role_it_needs(role: str, address: str, words: str) -> None:
    shown = " ".join(told(in_role(role), address, 403).text.split())
    assert words in shown
    if "This needs" in words:
        assert "A user with the role admin can change your role under Users." in shown


def test_who_has_permissions_of_their_own_is_told_which_one_is_missing() -> None:
    shown = " ".join(told(browser("nobody"), CALLS, 403).text.split())
    assert "This needs the role viewer . You have: custom . The permission is called tools_app.view_call ." in shown


def test_a_form_that_is_too_old_says_that_nothing_was_changed(chief: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = chief.cookies
    answer = strict.post("/admin/tools_app/stop/switch/", {"kind": "hub", "wanted": "stop", "confirmed": "1"})
    assert answer.status_code == 403
    assert "Nothing was changed." in Page(answer.content.decode()).text


def test_a_mistake_of_the_hub_is_told_without_asking_the_database(
    viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret of the hub")

    monkeypatch.setattr("tools_app.admin.overview.context", broken)
    viewer.raise_request_exception = False
    with override_settings(UNFOLD={"DASHBOARD_CALLBACK": "tools_app.admin.overview.context"}):
        answer = viewer.get("/admin/")
    assert answer.status_code == 500
    shown = Page(answer.content.decode())
    assert "Internal error" in shown.text
    assert "a secret of the hub" not in shown.html


@pytest.mark.django_db(databases=[])
def test_none_of_these_pages_needs_more_than_itself() -> None:
    for name in ("400", "403", "403_csrf", "404", "500"):
        assert render_to_string(f"{name}.html").count("<h1>") == 1


def test_a_search_without_results_offers_the_way_back_and_nothing_to_add(viewer: Client) -> None:
    call("echo")
    shown = page(viewer, f"{CALLS}?status=refused&q=echo")
    assert "No matches" in shown.text
    assert "Create a new item" not in shown.text
    assert "?" in [link["href"] for link in shown.all("a", class_="hub-link")]


def test_the_page_on_which_something_is_added_says_so(chief: Client) -> None:
    shown = page(chief, "/admin/tools_app/connection/add/")
    assert shown.one("h1").text.split()[-2:] == ["Add", "connection"]
    assert shown.all("a", class_="addlink") == []
    assert page(chief, "/admin/tools_app/connection/").one("a", class_="addlink")["aria-label"] == "Add connection"
