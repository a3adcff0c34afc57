"""What a file manages is read-only elsewhere, except what ends or restricts access; that shows as drift."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from tests.admin.conftest import chief
from tests.api.rest import Rest, failure
from tests.configuration.conftest import ACTOR, applied, planned
from tests.support.tools import Hub
from tests.support.upstreams import record_tool
from tools_app import governance
from tools_app.models import AlertRule, ApiKey, AuditEntry, Connection, ManagedRecord, Source, ToolRecord, Toolset
from tools_app.sdk.errors import ConflictError
from tools_app.setup import configuration

__all__ = ["chief"]  # a fixture


@pytest.fixture
def managed(full: Hub) -> bytes:
    """The hub, managed by its own export."""
    content = configuration.written(configuration.exported())
    applied(content)
    return content


def changes() -> list[Any]:
    """Each kind of change of each kind of record."""
    act: dict[str, Any] = {"actor": ACTOR}
    key = ApiKey.objects.get(name="ci")
    return [
        lambda: governance.change_toolset("mine", names=["add_note"], **act),
        lambda: governance.delete_toolset("everything", **act),
        lambda: governance.set_ask("add_note", False, **act),
        lambda: governance.set_enabled(["add_note", "calculate"], True, **act),
        lambda: governance.set_policy("list_notes", {"retries": 1}, **act),
        lambda: governance.set_hints("wiki_find", destructive=False, **act),
        lambda: governance.add_tag("day", ["echo"], **act),
        lambda: governance.remove_tag("night", ["echo"], **act),
        lambda: governance.change_source("wiki", trust="auto", **act),
        lambda: governance.change_source("wiki", enabled=False, trust="auto", **act),
        lambda: governance.change_origin("wiki", location="https://other.example.org/mcp", **act),
        lambda: governance.select_operations("shop", None, **act),
        lambda: governance.remove_source("files", **act),
        lambda: governance.change_connection("main", url="https://other.example.org", secret="x", **act),
        lambda: governance.change_connection("main", secret="another", **act),
        lambda: governance.delete_connection("env", **act),
        lambda: governance.change_key(key, may_write=True, **act),
        lambda: governance.change_alert_rule("ops", severity="info", **act),
        lambda: governance.delete_alert_rule("ops", **act),
    ]


def test_every_change_is_refused_and_names_the_file(managed: bytes) -> None:
    entries = AuditEntry.objects.count()
    for change in changes():
        with pytest.raises(ConflictError, match=r"is managed by the file hub\.yaml"):
            change()
    assert AuditEntry.objects.count() == entries
    assert configuration.written(configuration.exported()) == managed


def test_the_role_of_a_managed_user_is_refused(managed: bytes, django_user_model: Any) -> None:
    with pytest.raises(ConflictError, match="user olga is managed"):
        governance.set_role(django_user_model.objects.get(username="olga"), "admin", actor=ACTOR)


def test_switching_off_stopping_and_revoking_work_and_are_not_undone(managed: bytes, django_user_model: Any) -> None:
    governance.set_enabled(["echo"], False, actor=ACTOR)
    governance.change_source("wiki", enabled=False, actor=ACTOR)
    governance.change_connection("main", enabled=False, actor=ACTOR)
    governance.change_alert_rule("ops", enabled=False, actor=ACTOR)
    governance.revoke_key(ApiKey.objects.get(name="ci"), actor=ACTOR)
    governance.stop("pack", "desk", actor=ACTOR)
    governance.deactivate_user(django_user_model.objects.get(username="olga"), keys="stop", actor=ACTOR)
    plan = applied(managed)
    assert plan.changes == ()
    assert len(plan.drift) == 6
    assert "tool echo was switched off in the hub, and stays off (--switch-on switches it on)" in plan.drift
    assert "key ci is revoked, and stays so: remove it from the file, or use another name" in plan.drift
    assert not ToolRecord.objects.get(name="echo").enabled
    assert configuration.drift_of(ManagedRecord.Kind.TOOL, "echo")[1] == ["enabled"]  # type: ignore[index]
    back = applied(managed, switch_on=True)
    assert "changes tool echo: enabled: no → default, which was changed in the hub" in back.changes
    assert Source.objects.get(name="wiki").enabled
    assert Connection.objects.get(name="main").enabled
    assert AlertRule.objects.get(name="ops").enabled
    assert len(back.drift) == 2, "nothing takes back that a key was revoked, or a user deactivated"


def test_a_lower_role_is_given_at_once_and_stays_until_switch_on(managed: bytes, django_user_model: Any) -> None:
    olga = django_user_model.objects.get(username="olga")
    for role in ("viewer", ""):
        assert governance.set_role(olga, role, actor=ACTOR)
        plan = applied(managed)
        told = f"user olga has a lower role in the hub: {role or 'none'}, and keeps it (--switch-on undoes that)"
        assert (plan.changes, plan.drift) == ((), (told,))
        olga.refresh_from_db()
        assert governance.role_of(olga) == role
        with pytest.raises(ConflictError, match="user olga is managed"):
            governance.set_role(olga, "operator", actor=ACTOR)
    back = applied(managed, switch_on=True)
    assert back.changes == ("changes user olga: role: none → operator, which was changed in the hub",)
    assert not planned(managed).drift


def test_an_approval_neither_switches_on_nor_declares_what_a_file_manages(managed: bytes) -> None:
    wiki = Source.objects.get(name="wiki")
    for name in ("held", "free"):
        record_tool(wiki, name, destructiveHint=False)
    applied(managed.replace(b"tools:\n", b"tools:\n  wiki_held: {enabled: false, ask: true}\n", 1))
    rest = Rest(governance.create_key("program", scopes=["admin:*"], actor=ACTOR)[1])
    body = '{"tools": ["wiki_held", "wiki_free"], "enable": true, "acceptHints": true}'
    answer = rest.send("POST", "/v1/sources/wiki/approve", body).json()
    rest.close()
    assert (answer["approved"], answer["managed"]) == (["wiki_free", "wiki_held"], ["wiki_held"])
    held, free = (ToolRecord.objects.get(name=f"wiki_{name}") for name in ("held", "free"))
    assert held.definition is not None
    assert held.definition.approved_at is not None
    assert (held.enabled, held.hint_destructive) == (False, None)
    assert (free.enabled, free.hint_destructive) == (True, False)


def test_the_command_and_the_page_say_what_an_approval_left_to_the_file(managed: bytes, chief: Client) -> None:
    wiki = Source.objects.get(name="wiki")
    for name in ("held", "kept"):
        record_tool(wiki, name)
    both = b"tools:\n  wiki_held: {ask: true}\n  wiki_kept: {ask: true}\n"
    applied(managed.replace(b"tools:\n", both, 1))
    out = StringIO()
    call_command("source", "approve", "wiki", "wiki_held", "--enable", stdout=out)
    assert "Approved: wiki_held.\nSwitch and hints are those of a configuration file: wiki_held.\n" in out.getvalue()
    version = ToolRecord.objects.get(name="wiki_kept").definition_id
    data = {"decision": "approve_on", "versions": version, "scope": "shown", "enable": "1", "confirmed": "1"}
    page = chief.post(reverse("admin:tools_app_source_decide", args=[wiki.pk]), data, follow=True)
    assert "A configuration file decides about switch and hints of wiki_kept: they are as before." in (
        page.content.decode()
    )
    assert not ToolRecord.objects.filter(name__in=["wiki_held", "wiki_kept"], enabled=True).exists()


def test_what_another_program_has_changed_is_changed_back(managed: bytes) -> None:
    Toolset.objects.filter(name="mine").update(names=["add_note"])
    plan = planned(managed)
    assert "changes toolset mine: names: +echo +wiki_find -add_note, which was changed in the hub" in plan.changes
    applied(managed)
    assert Toolset.objects.get(name="mine").names == ["echo", "wiki_find"]


def test_pages_are_read_only_and_name_the_file(managed: bytes, chief: Client) -> None:
    before = configuration.written(configuration.exported())
    for model, name, data in (
        ("toolset", "mine", {"description": "other"}),
        ("toolrecord", "list_notes", {"retries": "1"}),
        ("source", "wiki", {"trust": "auto"}),
        ("apikey", "ci", {"kinds": "destroys", "connections": "main"}),
        ("connection", "main", {"url": "https://other.example.org", "enabled": "on"}),
        ("alertrule", "ops", {"severity": "info", "enabled": "on"}),
    ):
        row = apps.get_model("tools_app", model)._default_manager.get(name=name)
        address = reverse(f"admin:tools_app_{model}_change", args=[row.pk])
        page = chief.get(address).content.decode()
        assert "Managed by the file hub.yaml" in page
        assert "differs from the file" not in page
        assert ('name="_save"' in page) is (model in ("connection", "alertrule")), "these have a switch in their form"
        assert chief.post(address, data).status_code in (200, 302)
        assert configuration.written(configuration.exported()) == before, model


def test_forms_still_switch_off_and_the_page_shows_the_drift(managed: bytes, chief: Client) -> None:
    for model, row in (
        ("connection", Connection.objects.get(name="main")),
        ("alertrule", AlertRule.objects.get(name="ops")),
    ):
        address = reverse(f"admin:tools_app_{model}_change", args=[row.pk])
        chief.post(address, {})
        row.refresh_from_db()
        assert not row.enabled
        assert "differs from the file</span> enabled" in chief.get(address).content.decode()


def test_a_bulk_action_with_a_managed_tool_changes_none(managed: bytes, chief: Client) -> None:
    ToolRecord.objects.filter(name__in=["echo", "calculate"]).update(enabled=False)
    keys = list(ToolRecord.objects.filter(name__in=["echo", "calculate"]).values_list("pk", flat=True))
    page = chief.post(
        reverse("admin:tools_app_toolrecord_changelist"), {"action": "switch_on", "_selected_action": keys}, follow=True
    )
    assert "is managed by the file hub.yaml" in page.content.decode()
    assert not ToolRecord.objects.filter(pk__in=keys, enabled=True).exists()


def test_rest_refuses_with_a_conflict_and_switches_off(managed: bytes) -> None:
    rest = Rest(governance.create_key("program", scopes=["admin:*"], actor=ACTOR)[1])
    refused = rest.send("PATCH", "/v1/tools/add_note", '{"ask": false}')
    assert "managed by the file hub.yaml" in failure(refused, 409, "CONFLICT")["error"]
    assert rest.send("PATCH", "/v1/tools/echo", '{"enabled": false}').status_code == 200
    assert not ToolRecord.objects.get(name="echo").enabled
    rest.close()
