"""Sources outside: what they list is recorded, and nothing of it runs before an operator has approved it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from tests.support.listings import Listings, connected, tool
from tests.support.state import find_sources_again, rebuild_catalog
from tests.support.tools import Hub, Programmable
from tools_app import engine, governance, sources
from tools_app.base.ports import SignInRequiredError, UnavailableError
from tools_app.catalog import catalog, listed, offers
from tools_app.catalog.entry import Entry
from tools_app.catalog.source_states import SourceState, state_of
from tools_app.mcp_server import gate
from tools_app.models import AuditEntry, Definition, Source, SourceStatus, ToolRecord, revision
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import ToolDisabledError, ToolNotFoundError
from tools_app.sdk.hub_errors import DefinitionChangedError
from tools_app.sdk.reach import Reach
from tools_app.sources import foreign, outside, sync
from tools_app.sources.foreign import definitions, names
from tools_app.sources.lister import due
from tools_app.sources.recording import SyncReport

ACTOR = "user:olivia"
OPERATOR = governance.trusted(ACTOR)


@pytest.fixture
def servers(hub: Hub) -> Iterator[Listings]:
    with connected() as listings:
        yield listings


def describe(name: str = "srv") -> SyncReport:
    return sources.current().describe(name, actor="test")


def status(name: str = "srv") -> SourceStatus:
    return SourceStatus.objects.get(source__name=name)


def redefined() -> int:
    """Audit entries of new versions."""
    entries = AuditEntry.objects.filter(action="source.sync", subject="source:srv")
    return sum("redefined" in entry.changes for entry in entries)


def record(name: str = "srv_read") -> ToolRecord:
    return ToolRecord.objects.get(name=name)


def approve(*names: str) -> None:
    """Approve what waits of these tools, and switch them on."""
    waiting = Definition.objects.open().filter(tool__name__in=names)
    governance.approve_definitions([one.pk for one in waiting], actor=OPERATOR)
    governance.set_enabled(names, True, actor=OPERATOR)


def entry(name: str = "srv_read") -> Entry:
    found = catalog.current().find(name)
    assert found is not None
    return found


def reason(name: str = "srv_read") -> str:
    refusal = entry(name).refusal
    return refusal.reason if refusal is not None else ""


def call(caller: Caller, name: str = "srv_read") -> Any:
    return engine.call_sync(name, {"text": "hi"}, caller, door="code").answer.value


@pytest.fixture
def ready(servers: Listings) -> Listings:
    """One source with an approved tool that is switched on."""
    servers.add("srv", tool("read"))
    describe()
    approve("srv_read")
    return servers


class TestNewTools:
    def test_arrive_off_and_wait(self, servers: Listings, alice: Caller) -> None:
        servers.add("srv", tool("read"), tool("Write It!"))
        report = describe()
        assert len(report.added) == 2
        row = record()
        assert (row.enabled, row.original_name, row.pack, row.source_kind) == (False, "read", "srv", "mcp_http")
        assert row.definition is not None
        assert (row.definition.approved_at, row.definition.normaliser) == (None, foreign.NORMALISER)
        assert json.loads(row.definition.raw) == tool("read")
        assert row.definition.pin_hash == row.definition.body["pin"]
        assert reason() == "switched off until an operator enables it"
        governance.set_enabled(["srv_read"], True, actor=OPERATOR)
        assert reason() == "not approved: no operator has reviewed this version"
        with pytest.raises(ToolDisabledError):
            call(alice)
        assert servers.calls == []

    def test_run_once_they_are_approved_and_switched_on(self, ready: Listings, alice: Caller) -> None:
        assert call(alice) == {"answered by": "srv"}
        assert ready.calls == [("srv", "read", {"text": "hi"})]
        assert "srv_read" in [one.name for one in listed.listed(catalog.current())]

    def test_what_the_server_says_about_itself_is_recorded(self, servers: Listings) -> None:
        servers.add("srv")
        servers.put("srv", tool("read"), instructions="Use it.\0\u200b", unstable=frozenset({"read"}))
        describe()
        now = status()
        assert (now.server, now.era, now.unstable) == ("fake 1.0", "2025-11-25", ["read"])
        assert now.instructions.startswith("Use it.")
        assert "\0" not in now.instructions
        assert len(now.instructions_hash) == 64
        servers.put("srv", tool("read"))
        describe()
        assert (status().instructions, status().instructions_hash, status().unstable) == ("", "", [])

    def test_hints_are_claims_until_an_operator_sets_them(self, servers: Listings) -> None:
        servers.add("srv", tool("read", annotations={"readOnlyHint": True, "idempotentHint": True}))
        describe()
        assert entry().hints.writes
        assert entry().hints.destroys
        assert entry().spec.body["claims"] == {"readOnlyHint": True, "idempotentHint": True}
        ToolRecord.objects.filter(name="srv_read").update(hint_read_only=True)
        assert not entry().hints.writes

    def test_a_hundred_of_them_are_recorded_in_batches(self, servers: Listings) -> None:
        servers.add("srv", *(tool(f"tool{number}") for number in range(100)))
        assert len(describe().added) == 100
        assert describe().unchanged == 100

    def test_one_bad_definition_costs_one_tool(self, servers: Listings) -> None:
        servers.add("srv", tool("read"), {"name": 7}, "nonsense", tool("nul\0"), tool("deep"))  # type: ignore[arg-type]
        assert sorted(describe().added) == ["srv_deep", "srv_read"]
        assert len(status().load_problems) == 3
        assert state_of(Source.objects.get(name="srv")) is SourceState.INCOMPLETE
        assert status().next_try_at is None, "a server is not asked again for what it cannot change"

    def test_a_tool_that_runs_as_a_task_only_is_refused_with_the_reason(self, servers: Listings) -> None:
        servers.add("srv", tool("read", execution={"taskSupport": "required"}))
        describe()
        approve("srv_read")
        assert "task" in reason()

    def test_a_definition_that_became_unusable_is_refused_with_the_reason(self, ready: Listings) -> None:
        ready.put("srv", tool("read", "x" * 70_000))
        for _ in range(3):
            describe()
        assert reason() == "its definition cannot be used"
        assert record().retired_at is None, "it is there"
        ready.put("srv", tool("read"))
        describe()
        assert reason() == ""

    def test_baseline_of_a_source_that_holds_changes_only(self, servers: Listings, alice: Caller) -> None:
        servers.add("srv", tool("read"), trust=Source.Trust.HOLD_CHANGES)
        describe()
        governance.set_enabled(["srv_read"], True, actor=OPERATOR)
        assert call(alice) == {"answered by": "srv"}
        servers.put("srv", tool("read"), tool("late"))
        describe()
        governance.set_enabled(["srv_late"], True, actor=OPERATOR)
        assert reason("srv_late") == "not approved: no operator has reviewed this version"


class TestChangedTools:
    def test_keep_their_text_and_wait(self, ready: Listings, alice: Caller) -> None:
        ready.put("srv", tool("read", "Now does something else."))
        assert describe().changed == ["srv_read"]
        assert entry().description == "Does something."
        assert entry().callable, "it stays listed"
        with pytest.raises(DefinitionChangedError):
            call(alice)
        assert ready.calls == []
        approve("srv_read")
        assert entry().description == "Now does something else."
        call(alice)

    def test_go_back_to_the_approved_version(self, ready: Listings, alice: Caller) -> None:
        ready.put("srv", tool("read", "Now does something else."))
        describe()
        ready.put("srv", tool("read"))
        describe()
        assert record().offered is None
        call(alice)

    def test_only_the_newest_version_waits(self, ready: Listings) -> None:
        for number in range(5):
            ready.put("srv", tool("read", f"Version {number}."))
            describe()
        assert sorted(Definition.objects.filter(tool=record()).values_list("body__description", flat=True)) == [
            "Does something.",
            "Version 4.",
        ]
        (waiting,) = Definition.objects.open()
        assert record().offered == waiting

    def test_a_tool_that_differs_at_every_listing_waits_once(self, ready: Listings) -> None:
        for number in range(3):
            ready.put("srv", tool("read", f"It is {number} o'clock."), unstable=frozenset({"read"}))
            describe()
        offered = record().offered
        assert offered is not None
        assert offered.body["description"] == "It is 0 o'clock."

    def test_versions_that_replace_each_other_are_audited_once(self, ready: Listings) -> None:
        for number in range(5):
            ready.put("srv", tool("read", f"Version {number}."))
            describe()
        assert redefined() == 1
        approve("srv_read")
        ready.put("srv", tool("read", "Another one."))
        describe()
        assert redefined() == 2

    def test_a_tool_that_was_never_approved_has_one_version(self, servers: Listings) -> None:
        servers.add("srv", tool("read"))
        describe()
        servers.put("srv", tool("read", "Better."))
        describe()
        assert record().definition == Definition.objects.get(tool=record())
        assert entry().description == "Better."

    def test_a_refused_version_stays_refused(self, ready: Listings) -> None:
        ready.put("srv", tool("read", "Evil."))
        describe()
        governance.refuse_definitions([Definition.objects.open().get().pk], actor=OPERATOR)
        ready.put("srv", tool("read", "Good."))
        describe()
        ready.put("srv", tool("read", "Evil."))
        describe()
        offered = record().offered
        assert offered is not None
        assert offered.state == "refused"

    def test_a_renamed_tool_is_a_new_one_and_an_absent_one(self, ready: Listings, alice: Caller) -> None:
        ready.put("srv", tool("read_all"))
        assert describe().added == ["srv_read_all"]
        assert reason() == "its source srv does not list it any more"
        with pytest.raises(ToolDisabledError):
            call(alice)
        assert not record("srv_read_all").enabled
        ready.put("srv", tool("read_all"))
        assert describe().retired == ["srv_read"], "also if the listing is the same as the one before"
        with pytest.raises(ToolNotFoundError):
            call(alice)

    def test_a_tool_that_returns_keeps_its_approval(self, ready: Listings, alice: Caller) -> None:
        ready.put("srv")
        describe()
        ready.put("srv", tool("read"))
        describe()
        assert record().absent_since is None
        call(alice)
        ready.put("srv")
        describe()
        assert describe().retired == ["srv_read"]
        ready.put("srv", tool("read"))
        assert describe().returned == ["srv_read"]
        call(alice)

    def test_defaults_need_no_approval_if_they_are_not_pinned(self, ready: Listings, alice: Caller) -> None:
        def with_default(value: str) -> dict[str, Any]:
            return tool("read") | {
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "default": value}}}
            }

        Source.objects.update(pin_defaults=False)
        ready.put("srv", with_default("12:00"))
        describe()
        pinned = record().definition
        ready.put("srv", with_default("12:01"))
        describe()
        assert record().definition == pinned
        assert Definition.objects.filter(tool=record()).count() == 1
        call(alice)

    def test_pinning_defaults_from_now_on_holds_nothing_that_is_the_same(self, ready: Listings, alice: Caller) -> None:
        Source.objects.update(pin_defaults=False)
        ready.put("srv", tool("read") | {"inputSchema": {"properties": {"text": {"type": "string", "default": "x"}}}})
        describe()
        approve("srv_read")
        Source.objects.update(pin_defaults=True)
        describe()
        assert not entry().is_held
        call(alice)


class TestAnUpgradeOfTheRules:
    @pytest.fixture
    def upgraded(self, ready: Listings, monkeypatch: pytest.MonkeyPatch) -> Listings:
        """The next release describes the same words in other ones."""
        hash_of = definitions._Describer._hash

        def another_hash(self: Any, body: dict[str, Any]) -> str:
            body["description"] += " (cleaned)"
            return hash_of(self, body)

        def upgrade() -> None:
            monkeypatch.setattr(definitions._Describer, "_hash", another_hash)
            monkeypatch.setattr(definitions, "NORMALISER", foreign.NORMALISER + 1)
            monkeypatch.setattr(foreign, "NORMALISER", foreign.NORMALISER + 1)

        ready.before["upgrade"] = upgrade
        return ready

    def test_keeps_approvals(self, upgraded: Listings, alice: Caller) -> None:
        upgraded.before["upgrade"]()
        describe()
        definition = record().definition
        assert definition is not None
        assert (definition.approved_by, definition.normaliser) == (ACTOR, foreign.NORMALISER)
        assert entry().description == "Does something. (cleaned)"
        call(alice)
        assert str(describe()) == "1 unchanged"

    def test_keeps_refusals(self, upgraded: Listings) -> None:
        upgraded.put("srv", tool("read", "Evil."))
        describe()
        governance.refuse_definitions([Definition.objects.open().get().pk], actor=OPERATOR)
        upgraded.before["upgrade"]()
        describe()
        offered = record().offered
        assert offered is not None
        assert (offered.state, offered.normaliser) == ("refused", foreign.NORMALISER)

    def test_approves_nothing_that_changed_with_it(self, upgraded: Listings, alice: Caller) -> None:
        upgraded.before["upgrade"]()
        upgraded.put("srv", tool("read", "Something else."))
        describe()
        with pytest.raises(DefinitionChangedError):
            call(alice)


class TestIdentity:
    def test_the_same_words_of_another_server_are_not_approved(self, ready: Listings, alice: Caller) -> None:
        ready.add("other", tool("read"))
        describe("other")
        governance.set_enabled(["other_read"], True, actor=OPERATOR)
        with pytest.raises(ToolDisabledError):
            call(alice, "other_read")
        assert ready.calls == []

    def test_nor_are_those_of_another_address(self, ready: Listings, alice: Caller) -> None:
        outside.requarantine(Source.objects.get(name="srv"))
        Source.objects.update(enabled=True)
        with pytest.raises(DefinitionChangedError):
            call(alice)
        describe()
        with pytest.raises(DefinitionChangedError):
            call(alice)
        offered = record().offered
        assert offered is not None
        assert (offered.epoch, offered.approved_at) == (2, None)
        approve("srv_read")
        call(alice)

    def test_the_first_listing_at_another_address_is_no_baseline(self, servers: Listings, alice: Caller) -> None:
        servers.add("srv", tool("read"), trust=Source.Trust.HOLD_CHANGES)
        describe()
        outside.requarantine(Source.objects.get(name="srv"))
        Source.objects.update(enabled=True)
        servers.put("srv", tool("read"), tool("late"))
        describe()
        governance.set_enabled(["srv_read", "srv_late"], True, actor=OPERATOR)
        for name, error in (("srv_read", DefinitionChangedError), ("srv_late", ToolDisabledError)):
            with pytest.raises(error):
                call(alice, name)

    def test_a_version_that_waited_at_the_old_address_cannot_be_approved(self, ready: Listings) -> None:
        ready.put("srv", tool("read", "Something else."))
        describe()
        waiting = Definition.objects.open().get()
        outside.requarantine(Source.objects.get(name="srv"))
        assert not Definition.objects.filter(pk=waiting.pk).exists()
        assert status().described_at is None

    def test_a_name_that_another_source_has_costs_that_tool_only(self, servers: Listings, hub: Hub) -> None:
        hub.add(Programmable("srv_read").tool)
        servers.add("srv", tool("read"), tool("write"))
        assert describe().added == ["srv_write"]
        (problem,) = status().load_problems
        assert (problem.place, problem.tool) == ("srv", "srv_read")
        assert entry().origin is None

    def test_two_servers_can_have_the_same_resources_and_prompts(self, servers: Listings) -> None:
        page = {"uri": "file:///readme", "name": "readme"}
        for name in ("first", "second"):
            servers.add(name)
            servers.put(name, resources=[page], prompts=[{"name": "review"}])
            describe(name)
        assert ToolRecord.everything.filter(original_name="file:///readme").count() == 2
        approved = Definition.objects.open().filter(tool__kind__in=["prompt", "resource"])
        governance.approve_definitions([one.pk for one in approved], actor=OPERATOR)
        available = offers.of(catalog.current())
        assert {"first_review", "second_review"} <= set(available.prompts)
        assert len([uri for uri in available.resources if uri.endswith("readme")]) == 2

    def test_a_fault_in_naming_costs_one_tool(self, servers: Listings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(names.Names, "of", lambda *_, **__: "srv_same")
        servers.add("srv", tool("one"), tool("two"))
        assert describe().added == ["srv_same"]
        (problem,) = status().load_problems
        assert problem.reason == 'the name "srv_same" belongs to another of its tools'

    def test_two_names_that_are_one_here_are_two_tools(self, servers: Listings) -> None:
        servers.add("srv", tool("get-it"), tool("get_it"), tool("GET_IT"))
        assert len(describe().added) == 3
        before = set(ToolRecord.objects.filter(pack="srv").values_list("name", flat=True))
        servers.put("srv", tool("GET_IT"), tool("get_it"), tool("get-it"), tool("new"))
        describe()
        assert before < set(ToolRecord.objects.filter(pack="srv").values_list("name", flat=True))


class TestAnOutage:
    def test_takes_no_tool_from_agents(self, ready: Listings, alice: Caller) -> None:
        before = catalog.current()
        ready.errors["srv"] = UnavailableError("connection refused")
        with pytest.raises(UnavailableError):
            describe()
        now = status()
        assert (now.error, now.failures, now.availability) == ("connection refused", 1, "down")
        assert now.since is not None
        assert now.next_try_at is not None
        assert listed.digest(catalog.current()) == listed.digest(before)
        assert call(alice) == {"answered by": "srv"}, "the call finds out"
        assert state_of(Source.objects.get(name="srv")) is SourceState.FAILED

    def test_backs_off(self, ready: Listings) -> None:
        ready.errors["srv"] = UnavailableError("connection refused")
        waits, since = [], None
        for _ in range(9):
            with pytest.raises(UnavailableError):
                describe()
            now = status()
            assert now.next_try_at is not None
            since = since or now.since
            assert now.since == since
            waits.append(round((now.next_try_at - timezone.now()).total_seconds()))
        assert waits == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]
        del ready.errors["srv"]
        describe()
        now = status()
        assert (now.error, now.since, now.failures, now.next_try_at, now.availability) == ("", None, 0, None, "ok")

    def test_counts_as_a_change_once(self, ready: Listings) -> None:
        ready.errors["srv"] = UnavailableError("connection refused")
        numbers = [revision.numbers(connection).tools]
        for _ in range(3):
            with pytest.raises(UnavailableError):
                describe()
            numbers.append(revision.numbers(connection).tools)
        assert numbers[1] > numbers[0]
        assert numbers[1:] == [numbers[1]] * 3

    def test_is_over_whatever_the_listing_is(self, ready: Listings) -> None:
        ready.errors["srv"] = UnavailableError("connection refused")
        with pytest.raises(UnavailableError):
            describe()
        # A test of the source that succeeds.
        SourceStatus.objects.update(error="", since=None)
        del ready.errors["srv"]
        describe()
        assert (status().availability, status().next_try_at) == ("ok", None)

    def test_tells_missing_credentials_apart(self, ready: Listings) -> None:
        ready.errors["srv"] = SignInRequiredError("401 Unauthorized")
        with pytest.raises(UnavailableError):
            describe()
        assert state_of(Source.objects.get(name="srv")) is SourceState.SIGN_IN

    def test_whatever_a_listing_raises_is_an_outage(self, ready: Listings) -> None:
        ready.errors["srv"] = KeyError("result")
        with pytest.raises(UnavailableError, match="its listing cannot be read: KeyError"):
            describe()
        assert status().availability == "down"
        assert record().absent_since is None

    def test_a_source_that_was_never_listed_is_starting(self, servers: Listings) -> None:
        row = servers.add("srv", tool("read"))
        assert state_of(row) is SourceState.STARTING


class TestMeanwhile:
    """What happens while a listing is on its way."""

    def test_a_removed_source_is_not_recorded(self, servers: Listings) -> None:
        row = servers.add("srv", tool("read"))
        servers.before["srv"] = lambda: Source.objects.filter(pk=row.pk).update(removed_at=timezone.now())
        with pytest.raises(UnavailableError, match="changed or removed"):
            describe()
        assert not ToolRecord.objects.filter(pack="srv").exists()
        assert sources.current().provider("srv") is None

    def test_nor_is_a_source_that_has_moved(self, ready: Listings) -> None:
        ready.put("srv", tool("read", "The old server."), tool("more"))
        ready.before["srv"] = lambda: Source.objects.update(epoch=F("epoch") + 1)
        with pytest.raises(UnavailableError, match="changed or removed"):
            describe()
        assert (record().offered, status().error) == (None, "")

    def test_nor_what_is_left_of_one_that_moves_between_batches(
        self, servers: Listings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        servers.add("srv", *(tool(f"tool{number}") for number in range(sync.BATCH + 5)))
        pauses: list[float] = []

        def move(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                outside.requarantine(Source.objects.get(name="srv"))

        monkeypatch.setattr("tools_app.sources.sync.time.sleep", move)
        with pytest.raises(UnavailableError, match="changed or removed"):
            describe()
        assert ToolRecord.objects.filter(pack="srv").count() == sync.BATCH
        assert (status().etag, status().described_at) == ("", None)
        Source.objects.update(enabled=True)
        assert all(one.is_held for one in catalog.current().all if one.pack == "srv")

    def test_nor_is_its_failure(self, ready: Listings) -> None:
        ready.errors["srv"] = UnavailableError("connection refused")
        ready.before["srv"] = lambda: Source.objects.update(epoch=F("epoch") + 1)
        with pytest.raises(UnavailableError):
            describe()
        assert (status().availability, status().error) == ("ok", "")

    def test_another_change_is_not_missed(self, ready: Listings) -> None:
        ready.before["srv"] = lambda: outside.list_again("srv")
        describe()
        assert status().next_try_at is not None, "it may be newer than the listing"
        ready.put("srv", tool("read", "Changed."))
        describe()
        assert status().next_try_at is not None
        del ready.before["srv"]
        describe()
        assert status().next_try_at is None


class TestAnUnchangedListing:
    def test_writes_next_to_nothing(self, ready: Listings, django_assert_max_num_queries: Any) -> None:
        before = revision.numbers(connection).value
        described_at = status().described_at
        with django_assert_max_num_queries(12) as captured:
            assert str(describe()) == "1 unchanged"
        writes = [query["sql"] for query in captured if query["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]
        assert len(writes) <= 1
        assert (revision.numbers(connection).value, status().described_at) == (before, described_at)
        SourceStatus.objects.update(described_at=timezone.now() - timedelta(minutes=2))
        describe()
        assert status().described_at > timezone.now() - timedelta(minutes=1)  # type: ignore[operator]

    def test_may_have_another_order(self, servers: Listings) -> None:
        servers.add("srv", tool("one"), tool("two"))
        describe()
        before = status().etag
        servers.put("srv", {key: tool("two")[key] for key in reversed(tool("two"))}, tool("one"))
        describe()
        assert status().etag == before

    def test_is_recorded_if_the_trust_has_changed(self, servers: Listings) -> None:
        servers.add("srv", tool("read"))
        describe()
        governance.change_source("srv", trust="auto", actor=OPERATOR)
        describe()
        definition = record().definition
        assert definition is not None
        assert definition.approved_by == "source:mcp_http"


class TestWhoSeesThem:
    """A server that an operator adds must not reach every key."""

    @staticmethod
    def names_for(reach: Reach) -> set[str]:
        caller = Caller("key", "key:1", "alice", frozenset({"tools:execute"}), reach)
        return {one.name for one in catalog.current().seen_by(caller).all}

    def test_keys_without_toolsets_do_not(self, ready: Listings) -> None:
        key, _ = governance.create_key("wide", actor=OPERATOR)
        assert "srv_read" not in self.names_for(key.reach)
        assert "echo" in self.names_for(key.reach)

    def test_keys_of_operators_do(self, ready: Listings) -> None:
        key, _ = governance.create_key("ops", actor=OPERATOR, scopes=["tools:list", "tools:manage"])
        assert "srv_read" in self.names_for(key.reach)

    def test_toolsets_without_selectors_do_not(self, ready: Listings) -> None:
        governance.create_toolset("all", actor=OPERATOR)
        governance.create_toolset("reading", actor=OPERATOR, read_only=True)
        ToolRecord.objects.filter(name="srv_read").update(hint_read_only=True)
        assert "srv_read" not in self.names_for(Reach(frozenset({"all", "reading"})))
        assert "echo" in self.names_for(Reach(frozenset({"all"})))

    def test_toolsets_that_name_the_source_or_the_tool_do(self, ready: Listings) -> None:
        governance.create_toolset("by_source", actor=OPERATOR, packs=["srv"])
        governance.create_toolset("by_name", actor=OPERATOR, names=["srv_read"])
        for name in ("by_source", "by_name"):
            assert "srv_read" in self.names_for(Reach(frozenset({name})))

    def test_callers_without_toolsets_do_not_get_prompts_either(self, servers: Listings) -> None:
        servers.add("srv")
        servers.put("srv", prompts=[{"name": "review"}])
        describe()
        governance.approve_definitions([Definition.objects.open().get(tool__pack="srv").pk], actor=OPERATOR)
        for is_included in (True, False):
            caller = Caller("key", "key:1", "alice", frozenset(), Reach(outside=is_included))
            assert ("srv_review" in offers.of(catalog.current().seen_by(caller)).prompts) is is_included

    def test_a_key_without_toolsets_cannot_choose_one_by_its_address(self, ready: Listings) -> None:
        governance.create_toolset("by_source", actor=OPERATOR, packs=["srv"])
        governance.create_toolset("echoes", actor=OPERATOR, names=["echo"])
        key, _ = governance.create_key("wide", actor=OPERATOR)
        for toolset, expected in (("by_source", set()), ("echoes", {"echo"})):
            caller = Caller("key", "key:1", "alice", frozenset(), key.reach)
            chosen = asyncio.run(gate.Visitor(None, toolset).within(caller))
            assert {one.name for one in catalog.current().seen_by(chosen).all} - {"read_result"} == expected

    def test_a_key_cannot_call_them_by_name(self, ready: Listings) -> None:
        caller = Caller("key", "key:1", "alice", frozenset({"tools:execute"}), Reach(outside=False))
        with pytest.raises(ToolNotFoundError):
            call(caller)
        assert ready.calls == []


def test_a_removed_source_keeps_its_names(ready: Listings) -> None:
    row = Source.objects.get(name="srv")
    with transaction.atomic():
        sync.retire_source(row, actor=ACTOR)
    Source.objects.update(removed_at=timezone.now(), enabled=False)
    assert record().retired_at is not None
    assert catalog.current().find("srv_read") is None


def test_a_process_that_starts_asks_no_server(servers: Listings) -> None:
    for number in range(20):
        name = f"srv{number}"
        servers.add(name, tool("read"), kind="mcp_stdio", location="", command=["server"])
        describe(name)
        approve(f"{name}_read")
    before = json.dumps([listed.as_listed(one) for one in listed.listed(catalog.current())])
    assert before.count("_read") == 20
    servers.counts.clear()
    rebuild_catalog()
    find_sources_again()
    # In this order: what a process does before it serves, and the first list.
    sync.sync(changed_only=True, complete=False)
    assert json.dumps([listed.as_listed(one) for one in listed.listed(catalog.current())]) == before
    assert servers.counts == {}
    assert due(timezone.now()) == []


def test_a_sync_of_this_process_retires_nothing_of_them(ready: Listings) -> None:
    assert sync.sync().retired == []
    assert record().retired_at is None


def test_a_source_that_is_switched_off_can_be_described(servers: Listings) -> None:
    servers.add("srv", tool("read"), enabled=False)
    describe()
    assert reason() == "switched off until an operator enables it"
