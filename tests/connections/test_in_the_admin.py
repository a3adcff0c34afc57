"""Connections in the admin: made, tested, changed and deleted, and a secret that no page ever shows."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.conftest import browser, call
from tests.admin.pages import Page, page, sent
from tests.connections.test_governing import CANARY, URL, make
from tests.support.desk import Desk
from tests.support.tools import Hub
from tools_app import governance
from tools_app.catalog import connections
from tools_app.models import ApiKey, AuditEntry, Connection, Source

LIST = "/admin/tools_app/connection/"


@pytest.fixture
def chief(notes: Hub) -> Client:
    """A browser with a superuser signed in."""
    return browser("chief", is_superuser=True)


def address(name: str = "main", view: str = "change") -> str:
    return f"{LIST}{Connection.objects.get(name=name).pk}/{view}/"


def trial(chief: Client, identifier: str) -> Page:
    return sent(chief, f"{LIST}test/", connection=identifier)


def test_one_is_made_tested_and_its_secret_never_shown(chief: Client, desk: Desk) -> None:
    form = page(chief, f"{LIST}add/")
    assert form.one("input", name="secret")["type"] == "password"
    made = sent(
        chief,
        f"{LIST}add/",
        name="main",
        pack="desk",
        url=desk.url,
        secret="key-of-ann-1",
        enabled="on",
        read_only="on",
    )
    assert made.messages == ["Connection main created. No API key may use it until you add it to one. Test it now."]
    stored = Connection.objects.get()
    assert (stored.name, stored.pack, stored.url, stored.read_only) == ("main", "desk", desk.url, True)
    assert "not tested" in made.text
    told = trial(chief, "main")
    assert told.messages[0].startswith("main: Desk accepted the secret after ")
    assert "active tested just now" in told.text
    for shown in (made, told, page(chief, LIST), page(chief, address()), page(chief, address(view="history"))):
        assert "key-of-ann-1" not in shown.html
    assert AuditEntry.objects.get(action="connection.create").actor == "user:chief"


def test_a_test_that_fails_says_why_and_the_list_does_too(chief: Client, desk: Desk) -> None:
    make(url=desk.url)
    told = trial(chief, "main")
    assert told.messages == ["main: Wrong key: Desk does not accept it (401). Set the secret again."]
    assert "failing Wrong key: Desk does not accept it (401). Set the secret again." in told.text
    (row,) = [" ".join(row.text.split()) for row in page(chief, LIST).all("tr") if "main" in row.text]
    assert "failing" in row
    assert "Wrong key" in row


def test_an_operator_sees_it_without_its_secret_and_tests_it(chief: Client, desk: Desk) -> None:
    make(url=desk.url)
    user = User.objects.create_user("olga")
    governance.set_role(user, "operator", actor=governance.trusted("test"))
    olga = Client()
    olga.force_login(user)
    told = trial(olga, "main")
    assert told.messages == ["main: Wrong key: Desk does not accept it (401). Set the secret again."]
    shown = page(olga, address())
    assert desk.url in shown.text
    assert CANARY not in shown.html
    assert not shown.all("input", name="secret")
    assert not shown.all("button", name="_save")
    assert olga.post(address(), {"name": "main", "url": "https://elsewhere.example.org"}).status_code == 403
    assert page(olga, LIST).status == 200
    entry = AuditEntry.objects.get(action="connection.test")
    assert entry.actor == "user:olga"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "Main"}, "Lowercase letters"),
        ({"name": "environment"}, "reserved for connections from the environment"),
        ({"url": "http://desk.example.org"}, "must begin with https://"),
        ({"url": "desk"}, "must begin with https:// or http://"),
        ({"secret": ""}, "A connection needs a secret"),
        ({"secret": "gehäim"}, "printable ASCII"),
        ({"timeout_ms": "5"}, "100"),
        ({"pack": "builtin"}, "Select a valid choice"),
    ],
)
def test_errors_are_shown_at_their_field_and_input_is_kept(chief: Client, given: dict[str, str], said: str) -> None:
    typed = {"name": "main", "pack": "desk", "url": URL, "secret": CANARY, "enabled": "on", **given}
    shown = sent(chief, f"{LIST}add/", **typed)
    assert said in shown.text
    assert shown.one("input", name="url")["value"] == typed["url"]
    assert CANARY not in shown.html
    assert not Connection.objects.exists()


def test_an_empty_secret_keeps_the_one_there_is(chief: Client) -> None:
    make()
    kept = bytes(Connection.objects.get().sealed)
    form = page(chief, address())
    assert "Stored. Leave empty to keep it" in form.text
    assert form.one("input", name="secret").attributes.get("value", "") == ""
    saved = sent(chief, address(), url=f"{URL}/sub", secret="", read_only="on", name="other", pack="other")
    assert saved.messages == ["main saved. Applies from the next call."]
    stored = Connection.objects.get()
    assert (stored.name, stored.pack, stored.url, stored.enabled) == ("main", "desk", f"{URL}/sub", False)
    assert bytes(stored.sealed) == kept
    changes = AuditEntry.objects.get(action="connection.change").changes
    assert changes.keys() == {"url", "read_only", "enabled"}


def test_another_place_needs_the_secret_again(chief: Client) -> None:
    make()
    refused = sent(chief, address(), url="https://evil.example.org", secret="", enabled="on")
    assert "Give the secret again: it was set for another address" in refused.text
    assert Connection.objects.get().url == URL


def test_the_environment_is_shown_with_what_it_lacks(chief: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_URL", URL)
    shown = page(chief, LIST)
    assert "Desk desk not set Set DESK_KEY and restart the hub, or add a connection here." in shown.text
    assert "No connections yet" in shown.text


@pytest.mark.usefixtures("from_environment")
def test_that_of_the_environment_can_be_tested_and_not_changed(chief: Client, desk: Desk) -> None:
    shown = page(chief, LIST)
    assert f"Desk desk on {desk.url}/api/v1 Test" in shown.text
    assert "key-of-env-1" not in shown.html
    told = sent(chief, f"{LIST}test/", connection="environment:desk", from_list="1")
    assert told.messages[0].startswith("environment:desk: Desk accepted the secret")


def test_the_page_of_one_tells_who_uses_it(chief: Client) -> None:
    make()
    governance.create_key("agent", connections=["main"], actor=governance.trusted("test"))
    call("list_notes", connection="main")
    call("echo")
    shown = page(chief, address())
    for named in ("list_notes", "add_note", "agent"):
        assert named in shown.text
    assert "echo" not in shown.text
    assert "/admin/tools_app/call/?connection=main" in shown.addresses
    listed = page(chief, "/admin/tools_app/call/", connection="main")
    assert "list_notes" in listed.text
    assert "echo" not in listed.text
    (row,) = [" ".join(row.text.split()) for row in page(chief, LIST).all("tr") if "desk.example.org" in row.text]
    assert "just now succeeded 1" in row


def test_deleting_says_who_loses_it(chief: Client) -> None:
    make()
    governance.create_key("agent", connections=["main"], actor=governance.trusted("test"))
    gone = sent(chief, address(view="remove"))
    assert gone.messages == ["main and its stored key are deleted. These API keys can no longer use it: agent."]
    assert not Connection.objects.exists()


def test_a_key_is_given_connections_when_it_is_made(chief: Client) -> None:
    make()
    form = page(chief, "/admin/tools_app/apikey/add/")
    offered = {box["value"]: "checked" in box.attributes for box in form.all("input", name="connections")}
    assert offered == {"environment": True, "main": False}
    made = sent(
        chief,
        "/admin/tools_app/apikey/add/",
        name="agent",
        scopes="tools:list",
        kinds="all",
        tools="all",
        connections="main",
    )
    key = ApiKey.objects.get()
    assert key.connection_names == ["main"]
    assert "Connections: main" in made.text
    assert "Connections: main" in page(chief, f"/admin/tools_app/apikey/{key.pk}/change/").text


def test_seeing_is_not_changing(chief: Client) -> None:
    make()
    looker = browser("looker", "view_connection")
    shown = page(looker, address())
    assert shown.status == 200
    assert shown.all("button", name="_save") == []
    assert shown.all("input", name="secret") == []
    assert "Test connection" in shown.text, "who is on call can test it"
    for view, data in (("change", {"url": "https://evil.example.org"}), ("remove", {})):
        assert looker.post(address(view=view), data).status_code == 403
    assert looker.get(f"{LIST}add/").status_code == 403


@pytest.mark.parametrize("identifier", ["", "nobody", "\x00", "environment:none", "<xss-probe>", "x" * 3000])
def test_a_test_of_nothing_says_so(chief: Client, identifier: str) -> None:
    told = trial(chief, identifier)
    assert told.messages[0].startswith("There is no connection")
    assert told.all("xss-probe") == []


# ---- of sources outside


@pytest.fixture
def acme(chief: Client) -> Source:
    location = "https://acme.example/mcp"
    return Source.objects.create(name="acme", prefix="acme", kind=Source.Kind.MCP_HTTP, location=location)


def rows(**names_and_values: str) -> dict[str, str]:
    """What a person enters as names and values."""
    pairs = enumerate(names_and_values.items(), 1)
    return {
        key: text
        for number, (name, value) in pairs
        for key, text in ((f"secret_name_{number}", name.replace("_", "-")), (f"secret_value_{number}", value))
    }


def test_one_of_a_source_outside_is_made_with_names_and_values(chief: Client, acme: Source) -> None:
    form = page(chief, f"{LIST}add/")
    assert "acme – MCP server (HTTP)" in form.text
    assert form.one("input", name="secret_value_1")["type"] == "password"
    typed = {"name": "main", "pack": "acme", "form": "header", "enabled": "on"}
    made = sent(chief, f"{LIST}add/", **typed, **rows(X_Key=CANARY, X_Other=CANARY + "${file:acme}"))
    assert made.messages[0].startswith("Connection main created.")
    stored = Connection.objects.get()
    assert (stored.form, stored.names, stored.references) == ("header", ["X-Key", "X-Other"], ["file:acme"])
    assert stored.url == acme.location
    assert "file:acme needs TOOLHUB_SECRETS_DIR, which is not set" in made.text
    assert "https://acme.example/mcp" in made.text
    shown = page(chief, address())
    assert shown.one("input", name="secret_name_1")["value"] == "X-Key"
    assert shown.one("input", name="secret_value_1").attributes.get("value", "") == ""
    for one in (made, shown, page(chief, LIST), page(chief, address(view="history"))):
        assert CANARY not in one.html


def test_an_empty_value_keeps_the_stored_one_and_an_empty_name_removes_it(chief: Client, acme: Source) -> None:
    secret = {"X-A": "one", "X-B": "two", "X-C": "three"}
    governance.create_connection("main", "acme", form="header", secret=secret, actor=governance.trusted("test"))

    def values() -> dict[str, str]:
        return connections.values_of(connections.account_of("main"))

    saved = sent(chief, address(), **rows(X_A="", X_B="", X_C=""), enabled="on", read_only="on")
    assert saved.messages == ["main saved. Applies from the next call."]
    assert values() == secret
    assert AuditEntry.objects.get(action="connection.change").changes == {"read_only": [False, True]}
    sent(chief, address(), **rows(X_A="", X_C="new", X_D="four"), enabled="on")
    assert values() == {"X-A": "one", "X-C": "new", "X-D": "four"}
    refused = sent(chief, address(), **rows(X_A="", X_New="", Host=CANARY), enabled="on")
    assert "Host: the hub sets this header itself" in refused.text
    assert CANARY not in refused.html
    assert values() == {"X-A": "one", "X-C": "new", "X-D": "four"}


@pytest.mark.parametrize(
    ("form", "typed", "shown", "hidden"),
    [
        ("bearer", {"secret": CANARY}, "secret", "secret_name_1"),
        ("basic", rows(user="ann", password=CANARY), "secret_value_2", "secret_name_3"),
    ],
)
def test_the_other_forms_have_their_fields(
    chief: Client, acme: Source, form: str, typed: dict[str, str], shown: str, hidden: str
) -> None:
    made = sent(chief, f"{LIST}add/", name="main", pack="acme", form=form, enabled="on", **typed)
    assert made.messages[0].startswith("Connection main created.")
    names = {box.attributes.get("name") for box in made.all("input")}
    assert shown in names
    assert not {hidden, "url", "allow_http", "timeout_ms"} & names
    assert sent(chief, address(), enabled="on", secret="", **rows(user="", password="")).messages == [
        "main saved. Applies from the next call."
    ]
    assert connections.credentials_of(connections.account_of("main")).headers


@pytest.mark.parametrize(
    ("form", "typed", "fields"),
    [
        ("", {"form": "bearer", "secret": CANARY}, {"secret"}),
        ("bearer", {"form": "bearer", "secret": CANARY}, {"secret"}),
        (
            "basic",
            {"form": "basic", **rows(user="ann", password=CANARY)},
            {"secret_name_1", "secret_value_1", "secret_name_2", "secret_value_2"},
        ),
        (
            "query",
            {"form": "query", **rows(key=CANARY)},
            {f"secret_{part}_{number}" for part in ("name", "value") for number in (1, 2, 3)},
        ),
    ],
)
def test_a_page_for_one_source_has_the_fields_of_one_form(
    chief: Client, acme: Source, form: str, typed: dict[str, str], fields: set[str]
) -> None:
    own = f"{LIST}add/?pack=acme" + (f"&form={form}" if form else "")
    shown = page(chief, own)
    names = {box.attributes.get("name", "") for box in shown.all("input")}
    assert {name for name in names if name.startswith(("secret", "url", "timeout", "allow_http"))} == fields
    others = {link.attributes["href"] for link in shown.all("a") if "form=" in link.attributes.get("href", "")}
    assert len(others) == 5
    made = sent(chief, own, name="main", pack="acme", enabled="on", **typed)
    assert made.messages[0].startswith("Connection main created.")
    assert Connection.objects.get().form == typed["form"]


def test_a_page_for_a_program_has_variables(chief: Client) -> None:
    Source.objects.create(name="kid", prefix="kid", kind="mcp_stdio", command=["server"])
    shown = page(chief, f"{LIST}add/?pack=kid&form=bearer")
    assert "environment variables" in shown.text
    assert not {"secret", "url"} & {box.attributes.get("name") for box in shown.all("input")}
    assert page(chief, f"{LIST}add/?pack=%00").status == 200


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"form": ""}, "one of these forms: header"),
        ({"form": "environment"}, "one of these forms: header"),
        ({"form": "bearer", "secret": ""}, "A connection needs a secret"),
        ({"form": "header", "url": "https://evil.example"}, "has no url: set it at the source"),
        ({"form": "header", "secret": CANARY}, "names and their values"),
        ({"form": "query", **rows(a=CANARY + "${HOME}")}, "expected a variable that begins with TOOLHUB_SECRET_"),
        ({"form": "header", "pack": "desk", "url": URL, "secret": CANARY}, "The pack decides how the secret is sent"),
    ],
)
def test_what_a_form_cannot_have_is_said_on_the_page(
    chief: Client, acme: Source, given: dict[str, str], words: str
) -> None:
    shown = sent(chief, f"{LIST}add/", **{"name": "main", "pack": "acme", "enabled": "on", **given})
    assert words in shown.text
    assert CANARY not in shown.html
    assert not Connection.objects.exists()


def test_a_viewer_sees_names_and_references_only(chief: Client, acme: Source) -> None:
    secret = {"X-Key": "${file:acme}"}
    governance.create_connection("main", "acme", form="header", secret=secret, actor=governance.trusted("test"))
    shown = page(browser("looker", "view_connection"), address())
    assert "file:acme" in shown.text
    assert "X-Key" in shown.text
    assert [box for box in shown.all("input") if box.attributes.get("name", "").startswith("secret")] == []


def test_testing_one_of_a_source_outside_names_its_source(chief: Client, acme: Source) -> None:
    secret = {"X-Key": CANARY}
    governance.create_connection("main", "acme", form="header", secret=secret, actor=governance.trusted("test"))
    told = trial(chief, "main")
    assert told.messages[0].startswith("main: acme cannot be described: ")
    assert CANARY not in told.html


def test_a_key_is_given_connections_on_its_page(chief: Client) -> None:
    make()
    key = governance.create_key("agent", actor=governance.trusted("test"))[0]
    address = f"/admin/tools_app/apikey/{key.pk}/change/"
    boxes = {box["value"]: "checked" in box.attributes for box in page(chief, address).all("input", name="connections")}
    assert boxes == {"environment": True, "main": False}
    rights = {"scopes": key.scopes, "kinds": "all", "tools": "all", "asks": ""}
    saved = sent(chief, address, **rights, connections="main")
    assert saved.messages == ["agent saved. Applies from the next call."]
    assert ApiKey.objects.get().connection_names == ["main"]
    entry = AuditEntry.objects.get(action="key.change")
    assert (entry.actor, entry.changes) == ("user:chief", {"connections": [["environment"], ["main"]]})
    assert "Please correct the error" in sent(chief, address, **rights, connections="missing").text
    sent(chief, address, **rights)
    assert ApiKey.objects.get().connection_names == []
