"""What a plan says, what is refused, and what one application leaves: one transaction and one audit entry."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connection

from tests.configuration.conftest import ACTOR, applied, planned
from tests.support.packs.desk import pack
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.catalog import catalog
from tools_app.models import ApiKey, AuditEntry, Connection, ManagedRecord, Source, ToolRecord, Toolset
from tools_app.setup import configuration
from tools_app.setup.configuration import ConfigurationRefusedError, Options, PlanChangedError

BASE = "version: 1\n"
TOOLSET = f"{BASE}toolsets:\n  mine: {{names: [echo]}}\n"
KEY = "keys:\n  ci: {toolsets: [mine]}\n"
RULE = (
    "alert_rules:\n  ops: {url: '${TOOLHUB_SECRET_URL}', secret: '${TOOLHUB_SECRET_SIGN}', payloads: true, "
    """template: '{"text": "{text}"}'}\n"""
)


def refusal(content: str, **options: Any) -> str:
    entries = AuditEntry.objects.count()
    with pytest.raises(ConfigurationRefusedError) as caught:
        applied(content, **options)
    assert AuditEntry.objects.count() == entries
    return str(caught.value)


# ---- words


def test_a_plan_says_who_gains_and_loses_what_at_which_cost(hub: Hub) -> None:
    applied(TOOLSET + KEY)
    plan = planned(
        f"{BASE}toolsets:\n  mine: {{names: [calculate]}}\nkeys:\n  ci: {{toolsets: [mine], may_write: false}}\n"
    )
    assert plan.changes == (
        "changes toolset mine: names: +calculate -echo",
        "changes key ci: may_destroy: yes → no",
        "changes key ci: may_write: yes → no",
    )
    (effect,) = plan.effects
    assert effect.startswith(
        "agents with the key ci: gains 1 tool (calculate); loses 1 tool (echo); its list of tools costs "
    )
    assert Toolset.objects.get().names == ["echo"], "a plan changes nothing"


def test_a_plan_leaves_nothing_in_memory(hub: Hub) -> None:
    """The counters of a transaction that was rolled back are used again."""
    before = catalog.current().toolsets
    planned(TOOLSET)
    assert catalog.current().toolsets == before
    governance.create_toolset("other", actor=ACTOR)
    assert set(catalog.current().toolsets) == {"other"}


def test_a_source_at_another_server_is_announced_and_begins_anew(hub: Hub) -> None:
    wiki = "sources:\n  wiki: {kind: mcp_http, location: 'https://%s.example.org/mcp', trust: auto}\n"
    wiki += "connections:\n  wiki: {source: wiki, form: bearer, secret: {token: '${TOOLHUB_SECRET_A}'}}\n"
    applied(BASE + wiki % "wiki")
    plan = applied(BASE + wiki % "other")
    assert "changes source wiki: it is another server, so nothing that was approved of it holds" in plan.changes
    row = Source.objects.get(name="wiki")
    assert (row.location, row.epoch, row.enabled, row.trust) == ("https://other.example.org/mcp", 2, True, "auto")
    assert Connection.objects.get().references == ["TOOLHUB_SECRET_A"], "the file gives it for the new server as well"


# ---- what a file does not name any more


def test_nothing_is_deleted_without_prune(hub: Hub) -> None:
    governance.create_toolset("by-hand", actor=ACTOR)
    both = f"{TOOLSET}  other: {{}}\n  third: {{}}\ntools:\n  echo: {{ask: true, tags: [night]}}\n"
    applied(both + "keys:\n  ci: {toolsets: [other]}\n")
    plan = applied(TOOLSET)
    assert "releases key ci, which the file does not name any more: it stays (--prune deletes it)" in plan.changes
    assert governance.change_toolset("other", names=["echo"], actor=ACTOR), "it is not read-only any more"
    assert planned(TOOLSET).changes == ()
    pruned = applied(TOOLSET, prune=True)
    assert pruned.changes == ("revokes key ci", "resets what was decided about tool echo", "deletes toolset third")
    assert pruned.notes == ("toolset other stays, as keys that have ended are limited to it: ci",)
    assert not planned(TOOLSET, prune=True).is_needed
    assert ApiKey.objects.get().revoked_at is not None
    echo = ToolRecord.objects.get(name="echo")
    assert (echo.ask, list(echo.tags.filter(tooltag__declared=False))) == (False, [])
    assert Toolset.objects.filter(name="by-hand").exists(), "no file has ever named it"


def test_prune_removes_sources_with_their_connections_and_takes_roles(hub: Hub, django_user_model: Any) -> None:
    hub.add(Programmable().tool)
    content = f"{BASE}users:\n  olga: {{role: operator}}\nsources:\n  code: {{timeout_ms: 5000}}\n"
    content += "  wiki: {kind: mcp_http, location: 'https://w.example.org/mcp', connection: wiki}\n"
    content += "connections:\n  wiki: {source: wiki, form: bearer, secret: {token: '${TOOLHUB_SECRET_A}'}}\n"
    applied(content)
    applied(BASE, prune=True)
    assert not Connection.objects.exists()
    assert Source.objects.get(name="wiki").removed_at is not None
    assert Source.objects.get(name="code").timeout_ms is None
    assert governance.role_of(django_user_model.objects.get(username="olga")) == ""
    assert not ManagedRecord.objects.exists()


def test_a_record_that_was_released_and_deleted_is_forgotten(
    hub: Hub, django_user_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLHUB_SECRET_URL", "https://hooks.example.org/a")
    monkeypatch.setenv("TOOLHUB_SECRET_SIGN", "a secret of sixteen")
    users = "users:\n  olga: {role: viewer}\n  ben: {role: viewer}\n"
    applied(TOOLSET + users + RULE)
    applied(BASE)
    olga, ben = (django_user_model.objects.get(username=name) for name in ("olga", "ben"))
    governance.delete_toolset("mine", actor=ACTOR)
    governance.delete_alert_rule("ops", actor=ACTOR)
    governance.delete_user(olga, keys="stop", actor=ACTOR)
    governance.change_user(ben, name="benno", email="", actor=ACTOR)
    governance.create_toolset("mine", actor=ACTOR)
    governance.add_user("olga", role="admin", actor=ACTOR)
    governance.add_user("ben", role="admin", actor=ACTOR)
    pruned = applied(BASE, prune=True)
    assert (pruned.changes, pruned.is_needed) == ((), False)
    assert Toolset.objects.filter(name="mine").exists()
    assert governance.role_of(django_user_model.objects.get(username="olga")) == "admin"


def test_prune_leaves_off_what_people_switched_off(hub: Hub) -> None:
    hub.add(Programmable("noter").tool)
    content = f"{BASE}sources:\n  code: {{timeout_ms: 5000}}\ntools:\n  noter: {{ask: true}}\n"
    content += "  echo: {enabled: false}\n  calculate: {ask: true}\n"
    applied(content)
    for name in ("noter", "calculate"):
        governance.set_enabled([name], False, actor=ACTOR)
    governance.change_source("code", enabled=False, actor=ACTOR)
    applied(content.replace("  calculate: {ask: true}\n", ""))
    plan = applied(BASE, prune=True)
    assert set(plan.drift) == {
        f"{name} was switched off in the hub, and stays off (--switch-on switches it on)"
        for name in ("tool noter", "tool calculate", "source code")
    }
    on = dict(ToolRecord.objects.filter(name__in=["noter", "echo", "calculate"]).values_list("name", "enabled"))
    assert on == {"noter": False, "calculate": False, "echo": True}, "that one the file itself had switched off"
    code = Source.objects.get(name="code")
    assert (code.enabled, code.timeout_ms, ToolRecord.objects.get(name="noter").ask) == (False, None, False)
    applied(content, switch_on=True)
    governance.set_enabled(["noter"], False, actor=ACTOR)
    assert not applied(BASE, prune=True, switch_on=True).drift
    assert ToolRecord.objects.get(name="noter").enabled


# ---- what a plan pins


def test_a_plan_is_another_one_if_anything_in_the_file_is(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_SECRET_URL", "https://hooks.example.org/a")
    monkeypatch.setenv("TOOLHUB_SECRET_SIGN", "a secret of sixteen")
    long = "a word " * 50
    content = TOOLSET.replace("names:", f"description: '{long}begin', names:")
    content += RULE
    digests = {
        planned(one).digest
        for one in (content, content, content.replace("begin", "end"), content.replace("true", "false"))
    }
    assert len(digests) == 3
    (told,) = (one for one in planned(content).changes if "ops" in one)
    assert told == (
        'creates alert rule ops (payloads: yes, template: {"text": "{text}"}, '
        "url: ${TOOLHUB_SECRET_URL}, secret: ${TOOLHUB_SECRET_SIGN})"
    )


def test_users_who_are_there_are_changed_and_lose_what_was_given_one_by_one(hub: Hub, django_user_model: Any) -> None:
    olga = governance.add_user("olga", role="viewer", actor=ACTOR)
    ben = governance.add_user("ben", role="", actor=ACTOR)
    own = Group.objects.create(name="night shift")
    own.permissions.add(Permission.objects.get(codename="change_toolset"))
    governance.set_permissions(olga, groups=[own], permissions=[], actor=ACTOR)
    plan = applied(f"{BASE}users:\n  ben: {{role: viewer}}\n  olga: {{role: viewer}}\n")
    assert plan.changes[:3] == (
        "changes user ben: role: none → viewer",
        "changes user olga: role: custom → viewer",
        "changes user olga: its own groups and permissions of this hub are removed",
    )
    assert [governance.role_of(django_user_model.objects.get(pk=user.pk)) for user in (olga, ben)] == ["viewer"] * 2


# ---- refused


def test_another_file_of_the_same_name_is_refused_unless_the_name_was_said(hub: Hub) -> None:
    applied(TOOLSET)
    other = f"{BASE}toolsets:\n  theirs: {{names: [echo]}}\n"
    for content in (other, BASE):
        assert "no record that hub.yaml manages is in this file: is it another one?" in refusal(
            content, is_guessed=True
        )
    assert "creates toolset theirs (names: echo)" in applied(TOOLSET + "  theirs: {names: [echo]}\n").changes
    assert "deletes toolset mine" in applied(other, prune=True).changes


def test_a_record_of_another_file_is_refused(hub: Hub) -> None:
    applied(TOOLSET)
    assert refusal(TOOLSET, name="b.yaml") == "/toolsets/mine: it is managed by the file hub.yaml"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (KEY, "/keys/ci: There is no toolset 'mine'"),
        ("keys:\n  ci: {scopes: [everything]}", "/keys/ci: Unknown scope 'everything'"),
        ("keys:\n  ci: {owner: nobody}", "/keys/ci: There is no user 'nobody'"),
        ("keys:\n  ci: {expires_at: '2001-01-01T00:00:00+00:00'}", "/keys/ci: The expiry is in the past"),
        ("toolsets:\n  No: {}", "/toolsets/No: "),
        ("tools:\n  echo: {retries: 99}", "/tools/echo: retries must be between 0 and 3"),
        ("tools:\n  echo: {read_only: true}", "/tools/echo: The hints of echo are declared by its author"),
        ("tools:\n  read-result: {ask: true}", "/tools/read-result: The name of this tool is read_result"),
        ("sources:\n  nope: {timeout_ms: 5000}", "/sources/nope: There is no source nope"),
        ("sources:\n  code: {kind: mcp_http, location: 'https://a.example.org/mcp'}", "/sources/code: "),
        ("sources:\n  wiki: {kind: mcp_http, location: 'http://10.0.0.1/mcp'}", "/sources/wiki: "),
        ("sources:\n  api: {kind: openapi, location: 'https://a.example.org'}", "/sources/api: Its OpenAPI docu"),
        ("connections:\n  a: {source: desk, url: 'https://d.example.org', secret: '${TOOLHUB_SECRET_NONE}'}",
         "/connections/a: A secret is missing: TOOLHUB_SECRET_NONE is not set"),
        ("keys:\n  ci: {addresses: [10.0.0.1/8]}", "/keys/ci"),
        ("toolsets:\n  mine: {names: [' echo']}", "/toolsets/mine/names: the hub stores this in another way: echo"),
        ("alert_rules:\n  a: {url: '${TOOLHUB_SECRET_NONE}'}", "/alert_rules/a: A secret is missing"),
    ],
)  # fmt: skip
def test_what_governance_refuses_is_refused_with_its_path_and_changes_nothing(
    hub: Hub, content: str, words: str
) -> None:
    hub.add(*pack.tools)
    assert words in refusal(f"{BASE}users:\n  olga: {{role: operator}}\n{content}")
    assert not ManagedRecord.objects.exists()


def test_the_owner_of_a_key_does_not_change(hub: Hub) -> None:
    users = f"{BASE}users:\n  olga: {{role: admin}}\n"
    applied(f"{users}keys:\n  ci: {{}}\n")
    assert "The owner of a key does not change" in refusal(f"{users}keys:\n  ci: {{owner: olga}}\n")


# ---- tools that are not there yet


def test_what_restricts_a_tool_holds_from_its_first_listing_on(hub: Hub) -> None:
    content = f"{BASE}tools:\n  late: {{ask: true, retries: 0, tags: [night]}}\n  later: {{enabled: false}}\n"
    plan = applied(content)
    assert plan.changes[0].startswith("decides about tool late before its source lists it")
    assert not planned(content).is_needed
    assert b"late:" in configuration.written(configuration.exported())
    hub.add(Programmable("late").tool, Programmable("later").tool)
    late = ToolRecord.objects.get(name="late")
    assert (late.ask, late.retries, late.enabled) == (True, 0, True)
    assert not ToolRecord.objects.get(name="later").enabled
    assert applied(content).changes == ("changes tool late: tags: +night, which was changed in the hub",)


def test_a_tool_that_starts_off_stays_off_until_the_file_switches_it_on(hub: Hub) -> None:
    hub.add(Programmable("sleeper", starts_off=True).tool)
    assert b"sleeper" not in configuration.written(configuration.exported()), "nothing was decided about it"
    asks = f"{BASE}tools:\n  sleeper: {{ask: true"
    assert applied(f"{asks}}}\n").changes[0] == "changes tool sleeper: ask: no → yes"
    assert not ToolRecord.objects.get(name="sleeper").enabled
    assert "changes tool sleeper: enabled: default → yes" in applied(f"{asks}, enabled: true}}\n").changes
    assert b"sleeper:\n    enabled: true\n    ask: true" in configuration.written(configuration.exported())
    applied(BASE, prune=True)
    assert not ToolRecord.objects.get(name="sleeper").enabled


# ---- secrets


def test_a_secret_that_a_reference_gives_now_is_stored_and_never_told(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add(*pack.tools)
    content = (
        f"{BASE}connections:\n  a: {{source: desk, url: 'https://d.example.org', secret: '${{TOOLHUB_SECRET_D}}'}}\n"
    )
    monkeypatch.setenv("TOOLHUB_SECRET_D", "first-secret")
    applied(content)
    assert not planned(content).is_needed
    monkeypatch.setenv("TOOLHUB_SECRET_D", "second-secret")
    plan = applied(content)
    assert plan.changes == ("changes connection a: its secret is read again, as its value has changed",)
    assert not planned(content).is_needed
    monkeypatch.delenv("TOOLHUB_SECRET_D")
    assert not planned(content).is_needed, "the hub keeps what it has"
    told = str([entry.changes for entry in AuditEntry.objects.all()]) + str(plan)
    assert "first-secret" not in told
    assert "second-secret" not in told


# ---- one transaction, one entry


def test_one_entry_has_the_plan_and_every_change(hub: Hub) -> None:
    AuditEntry.objects.all().delete()
    applied(TOOLSET + KEY)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject, entry.actor) == ("config.apply", "config:hub.yaml", ACTOR.name)
    assert entry.reason == "as the file says"
    assert "creates toolset mine (names: echo)" in entry.changes["plan"][1]
    assert entry.changes["toolset:mine names"] == [None, ["echo"]]
    assert entry.changes["key:ci toolsets"] == [None, ["mine"]]
    applied(TOOLSET + KEY)
    assert AuditEntry.objects.count() == 1, "nothing was to do"
    governance.add_tag("night", ["echo"], actor=ACTOR)
    applied(f"{TOOLSET}{KEY}tools:\n  echo: {{tags: [day, noon]}}\n")
    assert AuditEntry.objects.first().changes["echo tags"] == [["night"], ["day", "noon"]]  # type: ignore[union-attr]


def test_a_failure_at_the_last_moment_leaves_nothing(hub: Hub) -> None:
    wanted = configuration.read((TOOLSET + KEY).encode())
    plan = configuration.plan(wanted, Options("hub.yaml"), actor=ACTOR)

    def fail(keys: list[tuple[str, str]]) -> None:
        assert keys[0][0] == "ci"
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        configuration.apply(wanted, Options("hub.yaml"), expected=plan, issue=fail, actor=ACTOR)
    assert not Toolset.objects.exists()
    assert not ApiKey.objects.exists()
    assert not ManagedRecord.objects.exists()


def test_a_hub_that_has_changed_since_the_plan_is_not_changed_unless_that_is_accepted(hub: Hub) -> None:
    wanted, how = configuration.read((TOOLSET + KEY).encode()), Options("hub.yaml")
    plan = configuration.plan(wanted, how, actor=ACTOR)
    governance.create_toolset("mine", names=["calculate"], actor=ACTOR)
    with pytest.raises(PlanChangedError) as caught:
        configuration.apply(wanted, how, expected=plan, actor=ACTOR)
    assert "changes toolset mine: names: +echo -calculate" in caught.value.plan.changes
    assert Toolset.objects.get().names == ["calculate"]
    configuration.apply(wanted, how, expected=plan, accepts_changes=True, actor=ACTOR)
    assert Toolset.objects.get().names == ["echo"]


def test_of_two_applies_at_once_one_wins_and_the_other_is_told(hub: Hub) -> None:
    wanted, how = configuration.read((TOOLSET + KEY).encode()), Options("hub.yaml")
    plan = configuration.plan(wanted, how, actor=ACTOR)
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def run() -> None:
        try:
            start.wait(10)
            configuration.apply(wanted, how, expected=plan, actor=ACTOR)
            outcomes.append("applied")
        except PlanChangedError as error:
            outcomes.append(str(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    told = "the hub has changed since this plan was made, perhaps by another apply"
    assert sorted(outcomes) == ["applied", told]
    assert AuditEntry.objects.filter(action="config.apply").count() == 1
    assert ApiKey.objects.count() == 1
