"""What a call of each reading tool costs on a real Redmine, and what of that is the hub's own.

make test-real-redmine ARGS="-n0 -k figures"
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import pytest

from tests.packs.redmine.office import TOOLS, Office
from tests.support.tools import Hub
from tools_app import engine
from tools_app.models import Call
from tools_app.sdk.context import Caller

TIMES = 15
LOCAL = Caller("local", "local:test", "test", frozenset({"tools:list", "tools:read", "tools:execute"}))
ASKED: dict[str, dict[str, Any]] = {
    "get_issue": {"id": 1, "include": "journals"},
    "list_activities": {},
    "get_attachment": {"id": 1},
    "get_wiki_page": {"project_id": "alpha", "title": "Wiki"},
    "list_custom_fields": {},
    "list_issue_statuses": {},
    "list_issues": {"sort": "priority:desc,due_date"},
    "list_members": {"project_id": "alpha"},
    "list_priorities": {},
    "list_project_statuses": {"project_id": "alpha", "tracker_id": "Bug"},
    "list_projects": {},
    "list_queries": {},
    "list_roles": {},
    "list_time_entries": {"user_id": "me"},
    "list_trackers": {},
    "list_users": {},
    "list_versions": {"project_id": "alpha"},
    "list_wiki_pages": {"project_id": "alpha"},
    "search_redmine": {"query": "issue"},
    "show_project": {"id": "alpha", "include": "trackers"},
    "show_time_entry": {"id": 1},
    "show_user": {"id": "current"},
    "summarize_issues": {"group_by": ["status"]},
    "summarize_project": {"id": "alpha"},
    "summarize_time_entries": {"group_by": ["user"]},
}
# Milliseconds of the hub's own that no tool needs, on a machine with other work as well.
TOO_MUCH = 60


def test_the_hub_takes_little_of_the_time_of_a_call(
    office: Office, hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REDMINE_HOST", office.url)
    monkeypatch.setenv("REDMINE_API_KEY", office.keys["admin"])
    hub.add(*TOOLS.values())
    assert ASKED.keys() == {tool.name for tool in TOOLS.values() if tool.hints.read_only}
    rows = {name: measured(name, arguments) for name, arguments in ASKED.items()}
    with capsys.disabled():
        print("\n| tool | call | at best | hub's own | at best |\n|---|---|---|---|---|")
        for name, (whole, own) in rows.items():
            print(f"| `{name}` |", " | ".join(f"{f(times):.1f}" for times in (whole, own) for f in (median, min)), "|")
    assert {name: median(own) for name, (_, own) in rows.items() if median(own) > TOO_MUCH} == {}


def measured(name: str, arguments: dict[str, Any]) -> tuple[list[float], list[float]]:
    """In milliseconds: what calls took, and what is left of that without the time at Redmine."""
    took: list[tuple[str, float]] = []
    for _ in range(TIMES + 1):
        began = time.perf_counter()
        result = engine.call_sync(name, arguments, LOCAL, door="code", options=engine.Options())
        took.append((result.call_id, 1000 * (time.perf_counter() - began)))
    # The first looks names up, and makes connections.
    del took[0]
    waited = dict(Call.objects.filter(pk__in=[call for call, _ in took]).values_list("pk", "upstream_ms"))
    return [whole for _, whole in took], [whole - (waited[call] or 0) for call, whole in took]
