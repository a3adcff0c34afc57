"""What clients do not accept, in the admin and over REST: of a source, of a tool and of a toolset."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.admin.outside import make_source, offer
from tests.admin.pages import page, sent
from tools_app import governance
from tools_app.models import Definition, ToolRecord, Toolset

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tools")]

SHELL = governance.trusted("test")
LONG = "a_name_that_is_longer_than_most_clients_accept_it_to_be"
NESTED = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}


@pytest.fixture
def root(db: None) -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("root"))
    return browser


@pytest.fixture
def nested() -> ToolRecord:
    record = offer(make_source(), "read", approved=True, enabled=True)
    version = record.definition
    assert version is not None
    body: dict[str, Any] = {**version.body, "inputSchema": NESTED}
    Definition.objects.filter(pk=version.pk).update(body=body, body_text=json.dumps(body))
    return record


def test_a_source_says_which_clients_refuse_its_tools(root: Client, nested: ToolRecord) -> None:
    shown = page(root, f"/admin/tools_app/source/{nested.source_id}/change/")
    assert "Limits of clients" in shown.text
    assert "Gemini refuses the list, or does not see the structure of the parameter" in shown.text


def test_a_tool_says_it_before_it_is_switched_on(root: Client, nested: ToolRecord) -> None:
    shown = page(root, f"/admin/tools_app/toolrecord/{nested.pk}/change/")
    assert "its parameters refer to definitions ($ref)" in shown.text


def test_a_toolset_counts_tools_as_agents_get_them(root: Client) -> None:
    toolset = governance.create_toolset("sums", actor=SHELL, names=["echo"], overrides={"echo": {"name": LONG}})
    assert isinstance(toolset, Toolset)
    shown = page(root, f"/admin/tools_app/toolset/{toolset.pk}/change/")
    assert "Claude: 1 tool is not accepted" in shown.text
    assert "Cursor: 1 tool is not accepted" in shown.text
    answer = sent(root, "/admin/tools_app/toolset/preview/", names="echo")
    assert "not accepted" not in answer.html
