"""Whatever names, texts and arguments hold, a browser sees it as text."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin.conftest import call, error_group, failed_call, process
from tests.admin.pages import Page, page, sent
from tools_app import governance
from tools_app.models import (
    ApiKey,
    AuditEntry,
    Call,
    Connection,
    Definition,
    ErrorGroup,
    ErrorLog,
    Process,
    Tag,
    ToolRecord,
    Toolset,
    ToolTag,
)

pytestmark = pytest.mark.django_db

PAYLOADS = (
    "<xss-probe>",
    "</pre></script><xss-probe></textarea>",
    "\"><xss-probe x='",
    "'><xss-probe x=\"",
    '" onfocus="probe()" autofocus="',
    "' onfocus='probe()' autofocus='",
    "--><xss-probe><!--",
    "{{ xss_probe|safe }}{% debug %}<xss-probe>",
    "&lt;xss-probe&gt;<xss-probe>",
)
PAGES = ("toolrecord", "call", "errorgroup", "errorlog", "auditentry", "apikey", "process", "toolset", "connection")


@pytest.fixture
def poisoned(db: None) -> None:
    """Records that hold a payload wherever text fits."""
    for number, payload in enumerate(PAYLOADS):
        cut = payload[:60]
        tool = ToolRecord.objects.create(
            name=cut, title=payload, description=payload, version=payload[:64], category=payload[:64], author=payload,
            source_kind=payload[:16], pack=payload[:64], place=payload,
        )  # fmt: skip
        property_schema = {
            "type": payload,
            "description": payload,
            "default": payload,
            "enum": [payload],
            "pattern": payload,
        }
        schema = {"type": "object", "properties": {payload: property_schema}, "required": [payload]}
        example = {"description": payload, "parameters": {payload: payload}, "expectedResult": payload}
        body = {"description": payload, "inputSchema": schema, "outputSchema": schema, "examples": [example],
                "aliases": [payload], "dependencies": [payload]}  # fmt: skip
        Definition.objects.create(tool=tool, hash=f"{number}o", version=payload[:64], body={"description": "before"})
        tool.definition = Definition.objects.create(
            tool=tool, hash=f"{number}n", version=payload[:64], body=body, approved_by=payload
        )
        tool.save()
        ToolTag.objects.create(tool=tool, tag=Tag.objects.create(name=f"{payload[:58]}{number}"))
        one = process(kind=payload[:16], host=payload)
        call(
            cut,
            arguments=payload,
            result=payload,
            process_id=one.pk,
            caller_name=payload,
            caller_id=payload[:64],
            error=payload,
            code=payload[:40],
        )
        group = error_group(cut, code=payload[:40], message=payload, place=payload, last_call_id=payload[:32])
        failed_call(cut, message=payload, detail=payload, code=payload[:40], caller_name=payload, group=group)
        if number % 2:
            governance.resolve_errors([group.pk], actor=governance.trusted(payload), reason=payload)
        AuditEntry.objects.create(
            actor=payload, action=payload[:40], subject=cut, reason=payload, changes={payload: [payload, payload]}
        )
        toolset = Toolset.objects.create(
            name=cut, description=payload, packs=[payload], categories=[payload], tags=[payload], names=[payload]
        )
        key = ApiKey.objects.create(name=payload, prefix=f"{payload[:10]}{number}", hash=str(number), scopes=[payload])
        key.toolsets.add(toolset)
        key.connections.add(
            Connection.objects.create(
                name=cut,
                pack=payload[:64],
                url=payload,
                sealed=b"",
                healthy=False,
                checked_at=timezone.now(),
                health=payload,
            )
        )


def harmless(shown: Page) -> Page:
    """No payload became markup: no element, no attribute, no script of it."""
    assert shown.status == 200
    for element in shown.elements:
        assert element.tag != "xss-probe"
        assert "onfocus" not in element.attributes
        assert not element.attributes.get("href", "").lower().startswith("javascript:")
        if element.tag in {"script", "style"}:
            assert "probe" not in element.text
    return shown


def test_no_list_turns_text_into_markup(poisoned: None, chief: Client) -> None:
    for name in PAGES:
        shown = harmless(page(chief, f"/admin/tools_app/{name}/"))
        assert "xss-probe" in shown.text
        harmless(page(chief, f"/admin/tools_app/{name}/?q=%22%3E%3Cxss-probe%3E"))
    harmless(page(chief, "/admin/"))


@pytest.mark.parametrize(
    "model", [ToolRecord, Call, ErrorGroup, ErrorLog, AuditEntry, ApiKey, Process, Toolset, Connection]
)
def test_no_page_turns_text_into_markup(poisoned: None, chief: Client, model: Any) -> None:
    for one in model.objects.all():
        shown = harmless(page(chief, f"/admin/tools_app/{model._meta.model_name}/{one.pk}/change/"))
        assert "probe" in shown.text


def test_no_filter_turns_its_value_into_markup(poisoned: None, chief: Client) -> None:
    for payload in PAYLOADS:
        for name, field in (
            ("call", "tool"),
            ("call", "caller"),
            ("errorlog", "code"),
            ("errorlog", "group"),
            ("errorgroup", "tool"),
            ("auditentry", "subject"),
        ):
            harmless(page(chief, f"/admin/tools_app/{name}/", **{field: payload, "since": payload}))
        harmless(page(chief, "/admin/tools_app/toolrecord/", state=payload, pack=payload))
        one = ToolRecord.objects.values_list("pk", flat=True)[0]
        harmless(page(chief, f"/admin/tools_app/toolrecord/{one}/change/", _changelist_filters=payload))


def test_no_message_turns_a_name_into_markup(poisoned: None, chief: Client) -> None:
    for tool in ToolRecord.objects.all():
        shown = harmless(sent(chief, f"/admin/tools_app/toolrecord/{tool.pk}/switch/", enabled="0"))
        assert shown.messages[0].startswith(" ".join(tool.name.split()))
    for payload in PAYLOADS:
        shown = harmless(
            sent(
                chief,
                "/admin/tools_app/apikey/add/",
                name=f"new {payload}",
                scopes=["tools:list"],
                kinds="all",
                tools="all",
            )
        )
        assert "able to see it again" in shown.text
    for toolset in Toolset.objects.all():
        harmless(sent(chief, f"/admin/tools_app/toolset/{toolset.pk}/change/", names=toolset.name))
        harmless(sent(chief, f"/admin/tools_app/toolset/{toolset.pk}/remove/"))
    for key in ApiKey.objects.all():
        harmless(sent(chief, f"/admin/tools_app/apikey/{key.pk}/revoke/"))
        harmless(sent(chief, "/admin/tools_app/apikey/", action="revoke", _selected_action=[key.pk]))


def test_no_question_turns_text_into_markup(poisoned: None, chief: Client) -> None:
    chosen = list(ErrorGroup.objects.values_list("pk", flat=True))
    for payload in PAYLOADS:
        for action in ("resolve", "reopen"):
            data = {"action": action, "_selected_action": [*chosen, payload]}
            shown = harmless(sent(chief, f"/admin/tools_app/errorgroup/?state=all&q={quote(payload[:1])}", **data))
            assert "probe" in shown.text
            harmless(sent(chief, "/admin/tools_app/errorgroup/?state=all", **data, confirmed="1", reason=payload))
    harmless(page(chief, "/admin/tools_app/auditentry/"))


def test_the_way_back_never_leads_elsewhere(poisoned: None, chief: Client) -> None:
    tool = ToolRecord.objects.all()[0]
    for given in (
        "https://evil.example/",
        "//evil.example",
        "\r\nLocation: https://evil.example",
        "next=//evil.example",
    ):
        response = chief.post(
            f"/admin/tools_app/toolrecord/{tool.pk}/switch/?_changelist_filters={given!s}", {"enabled": "0"}
        )
        assert response.status_code == 302
        assert response.headers["Location"].startswith("/admin/tools_app/toolrecord/?")
