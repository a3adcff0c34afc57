"""The agents that are connected now."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin.conftest import agent, browser, process
from tests.admin.pages import page
from tools_app.models import Agent

pytestmark = pytest.mark.django_db

AGENTS = "/admin/tools_app/agent/"


def test_agents_say_what_they_are_and_what_they_do(viewer: Client) -> None:
    runs = process(kind="runmcp", pid=99)
    made = agent(runs, calls=1_203, called_at=timezone.now() - timedelta(minutes=2), toolset="reading")
    shown = page(viewer, AGENTS)
    [row] = [" ".join(row.text.split()) for row in shown.all("tr", class_="data-row")]
    for words in ("claude-code 2.0", "2025-11-25 session", "reading", "agent key", "2 minutes ago", "1,203"):
        assert words in row
    assert "/admin/tools_app/call/?caller=key%3A1" in shown.addresses
    detail = page(viewer, f"{AGENTS}{made.pk}/change/")
    assert "runmcp hub-1:99" in detail.text
    there = page(viewer, f"/admin/tools_app/process/{runs.pk}/change/")
    assert f"{AGENTS}{made.pk}/change/" in there.addresses


def test_what_a_client_calls_itself_is_text(viewer: Client) -> None:
    agent(client="<script>alert(1)</script>", version="{{ 7 }}")
    assert "<script>alert(1)" not in page(viewer, AGENTS).html
    agent(client="", caller_id="key:2")
    assert "unnamed client" in page(viewer, AGENTS).text


def test_agents_of_a_process_that_fell_silent_are_gone(viewer: Client) -> None:
    silent = process(lease_until=timezone.now() - timedelta(seconds=1))
    lost = agent(silent)
    assert "No connected agents" in page(viewer, AGENTS).text
    missed = viewer.get(f"{AGENTS}{lost.pk}/change/")
    assert missed["Location"] == AGENTS
    assert "doesn’t exist" in page(viewer, AGENTS).messages[0]


def test_agents_are_narrowed_down(viewer: Client) -> None:
    agent(client="one", door="http", era="modern")
    agent(client="two", caller_id="local:ana", caller_name="ana")
    for query, name in (
        ("door__exact=http", "one"),
        ("era__exact=handshake", "two"),
        ("caller=ana", "two"),
        ("q=on", "one"),
    ):
        [row] = page(viewer, f"{AGENTS}?{query}").all("tr", class_="data-row")
        assert name in row.text, query


def test_agents_are_only_read_and_need_their_permission(chief: Client) -> None:
    made = agent()
    for refused in ("add/", f"{made.pk}/delete/", f"{made.pk}/change/"):
        assert chief.post(f"{AGENTS}{refused}", {"client": "other", "post": "yes"}).status_code == 403
    assert Agent.objects.get().client == "claude-code"
    assert browser("nobody").get(AGENTS).status_code == 403
    assert browser("somebody", "view_agent").get(AGENTS).status_code == 200
