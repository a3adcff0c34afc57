"""Which account a call uses: the caller's own, and never another's."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from tests.connections.conftest import called, caller
from tests.support.desk import Desk
from tests.support.packs.desk import DESK, add_note, list_notes
from tests.support.packs.desk import pack as desk_pack
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from toolhub import testing
from tools_app import engine, governance
from tools_app.catalog import catalog, listed
from tools_app.catalog.clients import client_of
from tools_app.mcp_server.listing import Listings
from tools_app.models import Call, Connection
from tools_app.sdk.context import Context
from tools_app.sdk.errors import (
    AuthorizationError,
    ConfigurationError,
    InvalidArgumentsError,
    ToolDisabledError,
    ToolError,
    ToolNotFoundError,
)
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.pack import Pack
from tools_app.sdk.parameters import ToolParameter
from tools_app.sdk.spec import Kind
from tools_app.setup import toolregistry

LATEST = "2026-07-28"


def entry(name: str, *connections: str) -> Any:
    found = catalog.current().seen_by(caller(*connections)).find(name)
    assert found is not None
    return found


def refusal(name: str, *connections: str) -> str:
    """Why a tool cannot be called, as its caller reads it."""
    found = entry(name, *connections).refusal
    with pytest.raises(ToolDisabledError) as refused:
        called(name, {"text": "x"} if name == "add_note" else {}, by=caller(*connections))
    assert refused.value.context["reason"] == found.reason
    return str(found.reason)


class TestWithoutAnAccount:
    def test_the_tools_say_what_to_set(self, notes: Hub) -> None:
        found = notes.entry("list_notes").refusal
        assert found is not None
        assert found.reason == "not configured: DESK_URL, DESK_KEY"
        assert found.next_step == (
            "Ask an operator to set DESK_URL and DESK_KEY, or to add a connection to Desk in the admin."
        )
        assert refusal("list_notes") == found.reason

    def test_half_an_account_is_none(self, notes: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DESK_URL", "https://desk.example.org")
        assert refusal("list_notes") == "not configured: DESK_KEY"

    def test_other_tools_work(self, notes: Hub) -> None:
        assert called("echo", {"message": "hi"}, by=caller())


class TestTheOneOfTheEnvironment:
    @pytest.mark.usefixtures("from_environment")
    def test_is_used_without_asking_and_is_on_record(self, notes: Hub, desk: Desk) -> None:
        assert called("add_note", {"text": "buy milk"}, by=caller()) == {"added": ["buy milk"]}
        assert desk.notes["env"] == ["buy milk"]
        assert desk.requests[0].target == "/desk/api/v1/notes"
        assert Call.objects.get().connection == "environment"
        assert "connection" not in entry("add_note").input_schema["properties"]

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("http://desk.example.org", "The base URL must begin with https://"),
            ("desk.example.org", "The base URL must begin with https:// or http://"),
            ("https://ann:hunter2@desk.example.org", "The base URL must not contain a user name or password"),
            ("https://desk.example.org/?a=1", "The base URL must end before"),
        ],
    )
    def test_a_wrong_address_is_reported_and_never_quoted(
        self, notes: Hub, monkeypatch: pytest.MonkeyPatch, url: str, shown: str
    ) -> None:
        monkeypatch.setenv("DESK_URL", url)
        monkeypatch.setenv("DESK_KEY", "key-of-env-1")
        told = refusal("list_notes")
        assert told.startswith(f"the connection environment cannot be used: DESK_URL: {shown}")
        assert "hunter2" not in told

    def test_plain_http_has_to_be_allowed(self, notes: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DESK_URL", "http://desk.example.org/sub/")
        monkeypatch.setenv("DESK_KEY", "key-of-env-1")
        monkeypatch.setenv("DESK_ALLOW_HTTP", "true")
        monkeypatch.setenv("DESK_READ_ONLY", "true")
        (account,) = notes.entry("list_notes").accounts
        assert (account.base, account.fault) == ("http://desk.example.org/sub/api/v1", "")
        assert refusal("add_note") == "the connection environment is read-only"

    @pytest.mark.parametrize("variable", ["DESK_READ_ONLY", "DESK_ALLOW_HTTP"])
    @pytest.mark.parametrize("value", ["ture", "enabled", "y", "2"])
    def test_is_not_used_while_a_variable_cannot_be_read(
        self, notes: Hub, desk: Desk, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv("DESK_URL", desk.url)
        monkeypatch.setenv("DESK_KEY", "key-of-env-1")
        monkeypatch.setenv(variable, value)
        for tool in ("add_note", "list_notes"):
            assert refusal(tool) == f"the connection environment cannot be used: {variable}: expected true or false"
        assert desk.requests == []

    def test_accepts_a_time_limit_per_request(self, notes: Hub, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DESK_URL", desk.url)
        monkeypatch.setenv("DESK_KEY", "key-of-env-1")
        assert notes.entry("list_notes").accounts[0].timeout_ms is None
        monkeypatch.setenv("DESK_TIMEOUT_MS", "250")
        rebuild_catalog()
        (account,) = notes.entry("list_notes").accounts
        assert client_of(account).timeout == 0.25
        monkeypatch.setenv("DESK_TIMEOUT_MS", "30s")
        rebuild_catalog()
        told = refusal("list_notes")
        assert told.endswith("DESK_TIMEOUT_MS: expected a whole number from 100 to 120000")

    @pytest.mark.parametrize("end", ["", "/", "/api/v1", "/api/v1/"])
    def test_the_path_of_the_interface_is_there_once(
        self, notes: Hub, monkeypatch: pytest.MonkeyPatch, end: str
    ) -> None:
        monkeypatch.setenv("DESK_URL", f"https://desk.example.org/sub{end}")
        monkeypatch.setenv("DESK_KEY", "key-of-env-1")
        assert notes.entry("list_notes").accounts[0].base == "https://desk.example.org/sub/api/v1"

    def test_its_secret_can_come_from_a_file(self, notes: Hub, desk: Desk, monkeypatch, tmp_path) -> None:
        (tmp_path / "key").write_text("key-of-env-1\n")
        monkeypatch.setenv("DESK_URL", desk.url)
        monkeypatch.setenv("DESK_KEY_FILE", str(tmp_path / "key"))
        assert called("list_notes", by=caller()) == {"notes": []}


@pytest.mark.usefixtures("ann_and_bob")
class TestSeveral:
    def test_a_new_connection_grants_nothing_and_changes_no_definition(self, notes: Hub, desk: Desk) -> None:
        before = {one.name: one.definition_hash for one in catalog.current().all}
        governance.create_connection(
            "carol", "desk", url=desk.url, secret="key-of-carol-1", actor=governance.trusted("test")
        )
        assert {one.name: one.definition_hash for one in catalog.current().all} == before
        assert refusal("list_notes") == "you may not use any connection to Desk"
        assert called("list_notes", by=caller("ann")) == {"notes": []}
        assert entry("list_notes", "ann").input_schema["properties"] == {}
        assert desk.keys == ["key-of-ann-1"]

    def test_one_is_used_without_asking(self, notes: Hub, desk: Desk) -> None:
        called("add_note", {"text": "mine"}, by=caller("ann"))
        called("add_note", {"text": "named", "connection": "ann"}, by=caller("ann"))
        assert desk.notes == {"ann": ["mine", "named"], "bob": [], "env": []}

    @pytest.mark.usefixtures("from_environment")
    def test_of_several_each_call_names_its_own(self, notes: Hub, desk: Desk) -> None:
        both = caller("ann", "bob")
        for name in ("ann", "bob", "ann"):
            called("add_note", {"text": f"for {name}", "connection": name}, by=both)
        assert desk.notes == {"ann": ["for ann", "for ann"], "bob": ["for bob"], "env": []}
        assert sorted(Call.objects.values_list("connection", flat=True)) == ["ann", "ann", "bob"]

    def test_missing_and_wrong_settings_are_reported_together(self, notes: Hub, desk: Desk) -> None:
        with pytest.raises(InvalidArgumentsError) as refused:
            called("add_note", {"texts": "x"}, by=caller("ann", "bob"))
        assert [problem.path for problem in refused.value.problems] == ["/connection", "/text", "/texts"]
        with pytest.raises(InvalidArgumentsError) as refused:
            called("list_notes", {"connection": 5}, by=caller("ann", "bob"))
        assert refused.value.message == "Invalid type for parameter connection: expected string"
        assert desk.requests == []

    @pytest.mark.usefixtures("from_environment")
    @pytest.mark.parametrize("named", ["bob", "nobody", "environment", "", "ANN", "ann ", "x" * 1000, "a\nb\x1b[2J"])
    @pytest.mark.parametrize("mine", [("ann",), ("ann", "carol")])
    def test_a_foreign_one_is_refused_whether_it_exists_or_not(
        self, notes: Hub, desk: Desk, named: str, mine: tuple[str, ...]
    ) -> None:
        with pytest.raises(AuthorizationError) as refused:
            called("list_notes", {"connection": named}, by=caller(*mine))
        assert refused.value.message.startswith("Permission denied: you may not use a connection '")
        assert refused.value.next_step == "Your connections are: ann."
        assert desk.requests == []
        row = Call.objects.get()
        assert (row.status, row.connection, row.tool_name) == ("refused", "", "list_notes")

    def test_one_that_is_switched_off_is_replaced_by_no_other(self, notes: Hub, desk: Desk) -> None:
        governance.change_connection("ann", enabled=False, actor=governance.trusted("test"))
        assert refusal("list_notes", "ann") == "the connection ann is disabled"
        # The choice stays: what was meant for one never goes to the other.
        schema = entry("list_notes", "ann", "bob").input_schema
        assert schema["required"] == ["connection"]
        assert schema["properties"]["connection"]["enum"] == ["bob"]
        with pytest.raises(InvalidArgumentsError):
            called("list_notes", by=caller("ann", "bob"))
        with pytest.raises(ToolDisabledError) as refused:
            called("list_notes", {"connection": "ann"}, by=caller("ann", "bob"))
        assert refused.value.context == {"reason": "the connection ann is disabled"}
        assert desk.requests == []

    @pytest.mark.usefixtures("from_environment")
    def test_one_that_is_gone_is_replaced_by_no_other_not_even_of_its_name(self, notes: Hub, desk: Desk) -> None:
        key, _ = governance.create_key("agent", connections=["ann"], actor=governance.trusted("test"))
        assert governance.delete_connection("ann", actor=governance.trusted("test")) == ["agent"]
        governance.create_connection(
            "ann", "desk", url=desk.url, secret="key-of-ann-1", actor=governance.trusted("test")
        )
        key.refresh_from_db()
        assert (key.connection_names, key.uses_environment) == ([], False)

    def test_one_whose_secret_cannot_be_read_is_replaced_by_no_other(self, notes: Hub, desk: Desk) -> None:
        Connection.objects.filter(name="ann").update(sealed=b"gAAAA nothing that anybody can read")
        for mine in (("ann",), ("ann", "bob")):
            with pytest.raises(ConfigurationError) as refused:
                called("list_notes", {"connection": "ann"}, by=caller(*mine))
            assert refused.value.message == "The secret of the connection ann cannot be read"
        assert desk.requests == []

    def test_reasons_of_other_callers_are_not_revealed(self, notes: Hub) -> None:
        for name in ("ann", "bob"):
            governance.change_connection(name, enabled=False, actor=governance.trusted("test"))
        assert entry("list_notes", "ann").refusal.reason == "the connection ann is disabled"
        assert entry("list_notes").refusal.reason == "you may not use any connection to Desk"

    def test_a_change_counts_for_the_very_next_call(self, notes: Hub, desk: Desk) -> None:
        called("add_note", {"text": "1"}, by=caller("ann"))
        governance.change_connection("ann", secret="key-of-bob-1", actor=governance.trusted("test"))
        called("add_note", {"text": "2"}, by=caller("ann"))
        assert (desk.notes["ann"], desk.notes["bob"]) == (["1"], ["2"])

    def test_what_is_cached_or_given_again_belongs_to_one(self, notes: Hub, desk: Desk) -> None:
        both = caller("ann", "bob")
        called("add_note", {"text": "1", "connection": "bob"}, by=both)
        counts = [called("count_notes", {"connection": name}, by=both)["count"] for name in ("ann", "bob", "ann")]
        assert counts == [0, 1, 0]
        assert len(desk.requests) == 3
        called("add_note", {"text": "x", "connection": "ann"}, by=both, idempotency_key="once")
        with pytest.raises(ToolError, match="different request"):
            called("add_note", {"text": "x", "connection": "bob"}, by=both, idempotency_key="once")
        assert desk.notes == {"ann": ["x"], "bob": ["1"], "env": []}


@pytest.mark.usefixtures("ann_and_bob")
class TestReadOnly:
    def test_refuses_what_writes_before_anything_is_sent(self, notes: Hub, desk: Desk) -> None:
        governance.change_connection("ann", read_only=True, actor=governance.trusted("test"))
        assert refusal("add_note", "ann") == "the connection ann is read-only"
        with pytest.raises(ToolDisabledError):
            called("add_note", {"text": "x", "connection": "ann"}, by=caller("ann", "bob"))
        assert desk.requests == []
        assert called("list_notes", by=caller("ann")) == {"notes": []}
        # Reading may choose it, writing may not; and neither goes on without saying where.
        offered = {
            name: entry(name, "ann", "bob").input_schema["properties"]["connection"]["enum"]
            for name in ("list_notes", "add_note")
        }
        assert offered == {"list_notes": ["ann", "bob"], "add_note": ["bob"]}


@pytest.mark.usefixtures("ann_and_bob")
class TestDoors:
    def test_agents_are_shown_their_own_choice(self, notes: Hub) -> None:
        listings = Listings()

        def listed(*connections: str) -> dict[str, list[str]]:
            seen = catalog.current().seen_by(caller(*connections))
            tools = listings.of(seen, LATEST).page(None)["tools"]
            return {one["name"]: list(one["inputSchema"]["properties"]) for one in tools if "note" in one["name"]}

        assert listed() == {}
        assert listed("ann") == {"add_note": ["text"], "count_notes": [], "list_notes": []}
        choice = {"add_note": ["text", "connection"], "count_notes": ["connection"], "list_notes": ["connection"]}
        assert listed("ann", "bob") == choice

    def test_only_callers_whose_choice_changes_are_notified(self, notes: Hub) -> None:
        def digests() -> list[str]:
            snapshot = catalog.current()
            return [listed.digest(snapshot.seen_by(caller(*mine))) for mine in (("ann",), ("ann", "bob"), ("carol",))]

        before = digests()
        governance.change_connection("bob", enabled=False, actor=governance.trusted("test"))
        after = digests()
        assert [was == now for was, now in zip(before, after, strict=True)] == [True, False, True]

    def test_a_dry_run_says_which_it_would_use(self, notes: Hub, desk: Desk) -> None:
        told = called("list_notes", {"connection": "bob"}, by=caller("ann", "bob"), dry_run=True)
        assert (told["connection"], told["arguments"]) == ("bob", {})
        assert told["upstream"]["name"] == "desk:bob"
        assert desk.requests == []

    def test_code_sees_the_tool_as_it_is(self, notes: Hub) -> None:
        shown = {one["name"]: one["parameters"] for one in toolregistry.ToolRegistry().list()}
        assert [one["name"] for one in shown["add_note"]] == ["text"]


@pytest.mark.usefixtures("ann_and_bob")
def test_accounts_of_one_pack_fail_apart(notes: Hub, desk: Desk) -> None:
    governance.change_connection("ann", url=f"{desk.faults}/status:500", actor=governance.trusted("test"))
    mine = caller("ann", "bob")
    codes = []
    for _ in range(6):
        with pytest.raises(ToolError) as failed:
            called("list_notes", {"connection": "ann"}, by=mine)
        codes.append(failed.value.code)
    assert codes == ["API_ERROR"] * 5 + ["CIRCUIT_OPEN"]
    assert failed.value.context["upstream"] == "desk:ann"
    assert called("list_notes", {"connection": "bob"}, by=mine) == {"notes": []}


def test_the_name_of_the_choice_is_taken() -> None:
    pack = Pack("taken", connection=DESK)

    @pack.tool(hints=Hints(read_only=True))
    async def choose(connection: str) -> str:
        """Choose."""
        return connection

    (error,) = pack.broken
    assert isinstance(error, DefinitionError)
    assert "may not have a parameter `connection`" in str(error)


@pytest.mark.parametrize(
    "wrong", [{"title": ""}, {"header": "a b"}, {"path": "api"}, {"path": "/api/"}, {"probe": "me"}]
)
def test_an_invalid_kind_is_refused_at_its_declaration(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="connection"):
        dataclasses.replace(DESK, **wrong)


def test_a_tool_without_a_pack_needs_no_account() -> None:
    assert {tool.connection_kind for tool in desk_pack.tools} == {DESK}
    assert ToolParameter.all_of({}) == []
    assert json.dumps(desk_pack.tools[0].definition())


class TestTheAuthorsTests:
    @pytest.mark.usefixtures("from_environment")
    def test_ask_the_upstream_that_they_set(self, desk: Desk) -> None:
        assert testing.call(add_note, text="1") == {"added": ["1"]}
        assert asyncio.run(testing.acall(list_notes)) == {"notes": ["1"]}
        assert desk.keys == ["key-of-env-1"] * 2

    def test_say_when_they_set_none(self) -> None:
        with pytest.raises(ConfigurationError, match="list_notes has no connection"):
            testing.call(list_notes)


@pytest.mark.usefixtures("ann_and_bob")
class TestWhatIsNoTool:
    """A prompt or a resource takes no account argument: it uses the caller's only connection."""

    def read(self, notes: Hub, *connections: str) -> Any:
        pack = Pack("desk", connection=DESK)

        @pack.resource("desk://notes")
        async def all_notes(ctx: Context) -> str:
            """All notes."""
            return json.dumps(await ctx.http.get("notes", operation="read notes"))

        notes.offer(all_notes)

        async def ran() -> Any:
            return await engine.call(all_notes.spec.address, {}, caller(*connections), door="code", kind=Kind.RESOURCE)

        return asyncio.run(ran())

    def test_uses_the_only_one(self, notes: Hub, desk: Desk) -> None:
        desk.notes["bob"].append("1")
        assert '["1"]' in self.read(notes, "bob").answer.text
        assert Call.objects.get().connection == "bob"

    @pytest.mark.parametrize(
        ("mine", "error"),
        [((), "resource:desk://notes"), (("ann", "bob"), "has no connection that it could use")],
    )
    def test_has_none_where_there_is_a_choice_or_nothing(
        self, notes: Hub, desk: Desk, mine: tuple[str, ...], error: str
    ) -> None:
        with pytest.raises((ToolNotFoundError, ConfigurationError), match=error):
            self.read(notes, *mine)
        assert desk.requests == []
