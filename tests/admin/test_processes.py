"""Processes: which are at work, and which have fallen silent."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin.conftest import browser, process
from tests.admin.pages import page

pytestmark = pytest.mark.django_db

PROCESSES = "/admin/tools_app/process/"


def test_a_process_is_alive_or_silent(viewer: Client) -> None:
    now = timezone.now()
    process()
    process(kind="runmcp", pid=99, started_at=now - timedelta(hours=3), lease_until=now - timedelta(hours=1))
    serve, runmcp = (" ".join(row.text.split()) for row in page(viewer, PROCESSES).all("tr", class_="data-row"))
    assert serve == "serve hub-1 4321 2 hours ago OK 0"
    assert runmcp.startswith("runmcp hub-1 99 3 hours ago missing since 20")


def test_processes_are_only_read(chief: Client) -> None:
    one = process()
    detail = f"{PROCESSES}{one.pk}/"
    assert page(chief, f"{detail}change/").status == 200
    for refused in (f"{PROCESSES}add/", f"{detail}delete/", f"{detail}change/"):
        assert chief.post(refused, {"kind": "other", "post": "yes"}).status_code == 403
    one.refresh_from_db()
    assert one.kind == "serve"


def test_processes_need_their_permission(db: None) -> None:
    assert browser("nobody").get(PROCESSES).status_code == 403
    assert browser("somebody", "view_process").get(PROCESSES).status_code == 200


def test_where_none_is_at_work_the_list_says_so(viewer: Client) -> None:
    assert "No running processes" in page(viewer, PROCESSES).text
