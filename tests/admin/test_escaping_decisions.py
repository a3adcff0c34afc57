"""What agents and tools wrote, on the pages where operators decide about them: a browser sees it as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from tests.admin.conftest import agent, approval, process
from tests.admin.pages import page, sent
from tests.admin.test_console_attacks import HOSTILE
from tests.admin.test_escaping import harmless
from tools_app import governance
from tools_app.models import Agent, Approval, Definition, Stop, ToolRecord

pytestmark = pytest.mark.django_db


def texts(model: type[Model], payload: str, *names: str) -> dict[str, str]:
    """The payload in these fields, as far as it fits."""
    lengths = {name: getattr(model._meta.get_field(name), "max_length", None) for name in names}
    return {name: payload[:length] for name, length in lengths.items()}


@pytest.fixture
def poisoned(db: None) -> None:
    running = process()
    for number, payload in enumerate(HOSTILE):
        cut, state = f"{number} {payload}", "approved" if number % 2 else "pending"
        shown = texts(Approval, payload, "caller_name", "reason", "decided_by", "connection", "door")
        approval(cut[:64], gives={payload: [payload]}, state=state, **shown)
        record = ToolRecord.objects.create(name=cut[:64], **texts(ToolRecord, payload, "source_kind", "place"))
        body = {
            "name": payload,
            "description": payload,
            "inputSchema": {"properties": {payload: {}}},
            "tags": [payload],
        }
        Definition.objects.create(tool=record, hash=f"{number}o", version="1", body={}, approved_at=timezone.now())
        written = texts(Definition, payload, "version", "reason", "refused_by")
        record.definition = Definition.objects.create(tool=record, hash=f"{number}n", body=body, **written)
        record.save()
        agent(running, **texts(Agent, payload, "client", "version", "protocol", "caller_name"))
        kind = ("pack", "connection", "key")[number % 3]
        Stop.objects.create(kind=kind, name=cut[:150], **texts(Stop, payload, "reason", "by"))


def test_no_list_of_decisions_turns_text_into_markup(poisoned: None, chief: Client) -> None:
    for address in ("approval/", "approval/?state=all", "definition/", "agent/", "stop/"):
        shown = harmless(page(chief, f"/admin/tools_app/{address}"))
        assert "probe" in shown.text, address
        assert not handlers(shown)
    stopped = harmless(page(chief, "/admin/"))
    assert not handlers(stopped)


@pytest.mark.parametrize("model", [Approval, Definition, Agent])
def test_no_page_of_a_decision_turns_text_into_markup(poisoned: None, chief: Client, model: Any) -> None:
    for one in model.objects.all():
        assert not handlers(harmless(page(chief, f"/admin/tools_app/{model._meta.model_name}/{one.pk}/change/")))


def test_no_message_of_a_decision_turns_text_into_markup(poisoned: None, chief: Client) -> None:
    for one in Approval.objects.filter(state="pending"):
        told = sent(chief, f"/admin/tools_app/approval/{one.pk}/decide/", decision="approve", reason=one.reason)
        assert not handlers(harmless(told))
    for stop in Stop.objects.all():
        given = {"kind": stop.kind, "name": stop.name, "wanted": "resume", "reason": stop.reason}
        assert not handlers(harmless(sent(chief, "/admin/tools_app/stop/switch/", **given)))
        assert not handlers(harmless(sent(chief, "/admin/tools_app/stop/switch/", **given | {"wanted": "stop"})))
    governance.stop("hub", actor=governance.trusted("user:x"), reason=HOSTILE[0])
    assert not handlers(harmless(page(chief, "/admin/")))


@pytest.mark.django_db(transaction=True)
def test_whoever_may_not_see_arguments_finds_them_nowhere(poisoned: None, viewer: Client) -> None:
    made = approval("secretive", gives={"note": "for few eyes"})
    listed = f"/admin/tools_app/approval/?state=all&q={json.dumps('few')}"
    for address in (f"/admin/tools_app/approval/{made.pk}/change/", "/admin/tools_app/approval/", listed):
        assert "few eyes" not in page(viewer, address).html
    for address, status in ((f"/v1/approvals/{made.pk}", 404), ("/v1/approvals", 200)):
        answer = viewer.get(address)
        assert answer.status_code == status
        assert b"few eyes" not in answer.content


def handlers(shown: Any) -> list[str]:
    """Attributes that would run something, and addresses that would."""
    return [
        f"{element.tag} {name}"
        for element in shown.elements
        for name, value in element.attributes.items()
        if name.startswith("on") or (name in ("href", "src", "action") and "script:" in value.lower())
    ]
