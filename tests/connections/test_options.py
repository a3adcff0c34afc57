"""What a pack lets operators decide for each connection: declared, checked, on record, and given to its tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from tests.admin.conftest import browser
from tests.admin.pages import page, sent
from tests.api.rest import Rest, failure
from tests.connections.test_governing import make
from tests.support.desk import Desk
from tests.support.packs.desk import DESK
from tests.support.tools import Hub
from tools_app import governance
from tools_app.catalog import catalog, connections
from tools_app.models import AuditEntry, Connection
from tools_app.sdk.accounts import Account, ConnectionOption
from tools_app.sdk.errors import ValidationError

DEFAULTS = {"archived": False, "greeting": "Hello", "pages": 3, "patience": 0.5}


def options(identifier: str = "main") -> dict[str, Any]:
    return dict(account(identifier).options)


def account(identifier: str) -> Account:
    return connections.identified(identifier, catalog.current().connection_kinds)


def test_each_has_its_default_until_it_is_set(notes: Hub) -> None:
    make()
    assert options() == DEFAULTS
    governance.change_connection("main", options={"pages": 5, "archived": True}, actor=governance.trusted("test"))
    governance.change_connection("main", options={"greeting": "Hi", "patience": 2}, actor=governance.trusted("test"))
    assert options() == {"archived": True, "greeting": "Hi", "pages": 5, "patience": 2.0}
    governance.change_connection("main", options={"pages": None}, actor=governance.trusted("test"))
    assert options() == {"archived": True, "greeting": "Hi", "pages": 3, "patience": 2.0}


def test_a_change_is_on_record_and_counts_for_the_next_call(notes: Hub) -> None:
    make(options={"pages": 4})
    (account,) = catalog.current().accounts_of("desk")
    governance.change_connection("main", options={"archived": True}, actor=governance.trusted("user:bob"))
    governance.change_connection("main", options={"archived": True}, actor=governance.trusted("user:bob"))
    (changed,) = catalog.current().accounts_of("desk")
    assert dict(changed.options)["archived"] is True
    assert account.mark != changed.mark
    made, change = AuditEntry.objects.filter(subject="connection:main").order_by("pk")
    assert made.changes["options"] == [None, {"pages": 4}]
    assert change.changes == {"options": [{"pages": 4}, {"pages": 4, "archived": True}]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"colour": "red"}, "'colour' is no option of this connection; known are: archived, greeting, pages, patience"),
        ({"archived": 1}, "expected true or false"),
        ({"archived": "yes"}, "expected true or false"),
        ({"greeting": 5}, "expected one line of text, at most 500 characters"),
        ({"greeting": "a\nb"}, "expected one line of text"),
        ({"greeting": "x" * 501}, "expected one line of text"),
        ({"pages": 1.5}, "expected a whole number"),
        ({"pages": True}, "expected a whole number"),
        ({"pages": float("inf")}, "expected a whole number"),
        ({"patience": "long"}, "expected a number"),
    ],
)
def test_what_it_cannot_have_is_refused(notes: Hub, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make(options=given)
    assert [problem.path for problem in refused.value.problems] == [f"/options/{next(iter(given))}"]
    assert said in refused.value.message
    assert not Connection.objects.exists()


def test_what_was_decided_for_an_option_that_is_no_more_does_no_harm(notes: Hub) -> None:
    make()
    Connection.objects.update(options={"pages": "many", "gone": 1})
    assert options() == DEFAULTS
    governance.change_connection("main", options={"archived": True}, actor=governance.trusted("test"))
    assert options() == DEFAULTS | {"archived": True}


@pytest.mark.usefixtures("from_environment")
@pytest.mark.parametrize(
    ("variables", "decided", "fault"),
    [
        ({}, {}, ""),
        ({"DESK_ARCHIVED": "true", "DESK_PAGES": "7", "DESK_PATIENCE": "1.5", "DESK_GREETING": "Hi"},
         {"archived": True, "pages": 7, "patience": 1.5, "greeting": "Hi"}, ""),
        ({"DESK_ARCHIVED": "main, environment"}, {"archived": True}, ""),
        ({"DESK_ARCHIVED": "off"}, {}, ""),
        ({"DESK_ARCHIVED": "main"}, {}, "DESK_ARCHIVED: expected true or false"),
        ({"DESK_PAGES": "many"}, {}, "DESK_PAGES: expected a number"),
        ({"DESK_PAGES": "1.5"}, {}, "DESK_PAGES: expected a whole number"),
        ({"DESK_PAGES": "9" * 400}, {}, "DESK_PAGES: expected a number"),
        ({"DESK_PATIENCE": "1e3"}, {}, "DESK_PATIENCE: expected a number"),
    ],
)  # fmt: skip
def test_the_environment_has_a_variable_for_each(
    notes: Hub, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], decided: dict[str, Any], fault: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert options("environment:desk") == DEFAULTS | decided
    assert account("environment:desk").fault == fault


def test_every_variable_is_one_of_the_pack() -> None:
    assert DESK.variables[5:] == ("DESK_ARCHIVED", "DESK_GREETING", "DESK_PAGES", "DESK_PATIENCE")


@pytest.mark.parametrize(("name", "text"), [("No", "x"), ("", "x"), ("no-name", "x"), ("name", "")])
def test_a_declaration_needs_a_name_and_words(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        ConnectionOption(name, text)


def test_they_are_shown_and_changed_over_rest(notes: Hub) -> None:
    root = Rest(governance.create_key("root", scopes=["admin:*"], connections=[], actor=governance.trusted("test"))[1])
    try:
        make()
        assert root.get("/v1/connections/main").json()["options"] == DEFAULTS

        def change(sent: Any) -> Any:
            return root.send("PATCH", "/v1/connections/main", json.dumps({"options": sent}))

        assert change({"archived": True, "pages": 9}).json()["options"] == DEFAULTS | {"archived": True, "pages": 9}
        assert change({"pages": None}).json()["options"] == DEFAULTS | {"archived": True}
        failure(change({"pages": "9"}), 400, "VALIDATION_ERROR")
        failure(change({"pages": [9]}), 400, "VALIDATION_ERROR")
        failure(change({f"x{number}": 1 for number in range(51)}), 400, "VALIDATION_ERROR")
        assert options() == DEFAULTS | {"archived": True}
    finally:
        root.close()


class TestInTheAdmin:
    @pytest.fixture
    def chief(self, notes: Hub) -> Client:
        return browser("chief", is_superuser=True)

    def address(self) -> str:
        return f"/admin/tools_app/connection/{Connection.objects.get().pk}/change/"

    def test_each_is_a_field_of_its_type(self, chief: Client, desk: Desk) -> None:
        make(url=desk.url, options={"pages": 4})
        form = page(chief, self.address())
        assert form.one("input", name="option_archived")["type"] == "checkbox"
        assert form.one("input", name="option_pages")["value"] == "4"
        assert form.one("input", name="option_greeting")["value"] == "Hello"
        assert "Whether old notes are shown as well." in form.text
        typed = {"url": desk.url, "enabled": "on", "option_archived": "on", "option_pages": "", "option_patience": "2"}
        told = sent(chief, self.address(), **typed, option_greeting="Hi")
        assert told.messages == ["main saved. Applies from the next call."]
        assert options() == {"archived": True, "greeting": "Hi", "pages": 3, "patience": 2.0}

    def test_errors_are_shown_at_their_field(self, chief: Client, desk: Desk) -> None:
        make(url=desk.url)
        told = sent(chief, self.address(), url=desk.url, option_greeting="a\u2028b", option_pages="x")
        assert "Enter a whole number." in told.text
        told = sent(chief, self.address(), url=desk.url, option_greeting="a\u2028b", option_pages="1")
        assert "expected one line of text" in told.text
        assert options() == DEFAULTS

    def test_viewers_see_them(self, chief: Client, desk: Desk) -> None:
        make(url=desk.url, options={"archived": True})
        viewer = browser("vera", "view_connection")
        shown = page(viewer, self.address())
        assert "archived: yes, greeting: Hello" in shown.text
        assert 'name="option_archived"' not in shown.html
