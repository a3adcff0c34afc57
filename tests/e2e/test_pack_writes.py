"""What writes in the packs of upstreams does the same through every door: to the caller, and to the upstream."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.test_pack_parity import N8N_MODULES
from tests.e2e.test_parity import Asked, by_command, over_http, over_rest, over_stdio
from tests.packs.n8n import script
from tests.packs.n8n.fake import KEY, N8n
from tests.packs.redmine.office import TOOLS as REDMINE_TOOLS
from tests.support.agents import LEGACY, MODERN
from tests.support.processes import Home
from tests.support.redmine import FakeRedmine
from tools_app.packs.n8n import pack as n8n_pack

assert N8N_MODULES, "a pack has the tools of its modules, once these are imported"

# The ids are those that the fakes give in this order, beginning anew for each door.
_NEW: Final = {"nodes": [script.webhook("parity"), script.MANUAL], "connections": {}, "settings": {}}
_OPEN: Final = [{"column": "status", "value": "open"}]
_TABLE: Final = "0" * 16
N8N: Final[list[Asked]] = [
    ("create_workflow", {"name": "parity", **_NEW}),
    ("update_workflow", {"id": "wf0001", "name": "parity, renamed"}),
    ("update_workflow", {"id": "wf0001", "nodes": []}),
    ("edit_workflow", {"id": "wf0001", "operations": [{"op": "rename_node", "node": "Start", "name": "By hand"}]}),
    ("activate_workflow", {"id": "wf0001"}),
    ("run_workflow", {"id": "wf0001", "data": {"a": 1}}),
    ("deactivate_workflow", {"id": "wf0001"}),
    ("delete_workflow", {"id": "wf0001"}),
    ("retry_execution", {"id": "{failed}"}),
    ("stop_execution", {"id": "{failed}"}),
    ("delete_execution", {"id": "{failed}"}),
    ("insert_data_table_rows", {"id": _TABLE, "rows": [{"order": 1, "status": "open"}, {"order": 2}]}),
    ("update_data_table_rows", {"id": _TABLE, "filter": _OPEN, "values": {"order": 3}}),
    ("delete_data_table_rows", {"id": _TABLE, "filter": _OPEN}),
]
REDMINE: Final[list[Asked]] = [
    ("create_issue", {"project_id": "alpha", "subject": "Parity", "tracker_id": "Bug"}),
    ("update_issue", {"id": 1, "notes": "A note", "done_ratio": 70}),
    ("update_issues", {"ids": [1, 2], "priority_id": "High"}),
    ("copy_issue", {"id": 1, "subject": "Copied"}),
    ("delete_issue", {"id": 143}),
    ("add_issue_watcher", {"issue_id": 2, "user_id": "Mara Manager"}),
    ("remove_issue_watcher", {"issue_id": 2, "user_id": "Mara Manager"}),
    ("edit_issue_note", {"issue_id": 1, "note_id": 4, "notes": "Edited"}),
    ("create_issue_relation", {"issue_id": 2, "related_issue_id": 3, "relation_type": "blocks"}),
    ("delete_issue_relation", {"id": 1}),
    ("create_project", {"name": "Parity", "identifier": "parity"}),
    ("update_project", {"id": "parity", "description": "Changed"}),
    ("archive_project", {"id": "parity"}),
    ("unarchive_project", {"id": "parity"}),
    ("delete_project", {"id": "parity"}),
    ("create_time_entry", {"issue_id": 1, "hours": 1.5, "activity_id": "Development"}),
    ("update_time_entry", {"id": 1, "hours": 2}),
    ("delete_time_entry", {"id": 1}),
    ("create_user", {"login": "p", "firstname": "P", "lastname": "Q", "mail": "p@example.test"}),
    ("update_user", {"id": 5, "firstname": "P"}),
    ("delete_user", {"id": 5}),
    ("attach_file", {"issue_id": 1, "filename": "a.txt", "text": "hello"}),
    ("delete_attachment", {"id": 1}),
    ("write_wiki_page", {"project_id": "alpha", "title": "Parity", "text": "h1. Parity"}),
    ("delete_wiki_page", {"project_id": "alpha", "title": "Parity"}),
    ("set_member", {"project_id": "alpha", "user_id": "Lim Ited", "roles": ["Reporter"]}),
    ("remove_member", {"project_id": "alpha", "user_id": "Lim Ited"}),
    ("create_version", {"project_id": "alpha", "name": "9.9"}),
    ("update_version", {"id": 1, "description": "Changed"}),
    ("delete_version", {"id": 204}),
    ("create_issue_category", {"project_id": "alpha", "name": "Parity"}),
    ("update_issue_category", {"id": 1, "name": "Backend, renamed"}),
    ("delete_issue_category", {"id": 1}),
]
# Refused everywhere: an operator has not allowed them for this connection.
OFF: Final = {"create_user", "update_user", "delete_user"}
_VARYING: Final = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b|\b\d+\.[0-9a-f]{16}\b|http://127\.0\.0\.1:\d+"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"
)
Door = Callable[[Home, list[Asked]], list[Any]]


def test_all_that_writes_is_called() -> None:
    # What reads or writes files is for callers of this machine only.
    writing = {
        tool.name
        for tool in (*n8n_pack.tools, *REDMINE_TOOLS.values())
        if not (tool.hints.read_only or tool.spec.needs_files)
    }
    assert {name for name, _ in (*N8N, *REDMINE)} == writing


@pytest.mark.mcp
def test_every_tool_that_writes_does_the_same_through_every_door(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert home.run("synctools").returncode == 0
    rest, written = through(home, over_rest)
    for (name, arguments), outcome in zip((*N8N, *REDMINE), rest, strict=True):
        refused = name in OFF or arguments.get("nodes") == [] or name == "stop_execution"
        assert isinstance(outcome, list if refused else dict), (name, outcome)
    assert len(written) > 40
    assert through(home, over_stdio) == (rest, written)
    for era in (LEGACY, MODERN):
        assert through(home, partial(_over_http, era)) == (rest, written)
    # Each is a process of its own, which takes a second: only the first of each pack.
    outcomes, by_shell = through(home, by_command, first=4)
    expected = [*rest[:4], *rest[len(N8N) : len(N8N) + 4]]
    for outcome, by_rest in zip(outcomes, expected, strict=True):
        if isinstance(by_rest, dict):
            assert outcome == by_rest
        else:
            assert outcome[0] in (1, 2)
            assert by_rest[1] in outcome[1]
    assert len(by_shell) > 6
    assert [each for each in by_shell if each not in written] == []


def _over_http(era: str, home: Home, asked: list[Asked]) -> list[Any]:
    return over_http(home, era, asked)


def through(home: Home, door: Door, first: int | None = None) -> tuple[list[Any], list[Any]]:
    """What the calls came to, and what the upstreams were told to change: fresh ones, which know of no other door.

    `first`: the number of calls of each pack to make.
    """
    with N8n() as n8n, FakeRedmine() as redmine:
        failed = n8n.hold("error_code")
        n8n.data.add("orders", order="number", status="string")
        home.extra |= {
            "N8N_URL": n8n.url,
            "N8N_API_KEY": KEY,
            "REDMINE_HOST": redmine.url,
            "REDMINE_API_KEY": "key-of-admin",
        }
        asked = [
            (name, {key: failed if value == "{failed}" else value for key, value in arguments.items()})
            for name, arguments in N8N[:first]
        ]
        asked += [(name, {**arguments, "format": "json"}) for name, arguments in REDMINE[:first]]
        outcomes = door(home, asked)
        told = [
            (seen.method, seen.target, seen.body.decode())
            for seen in (*n8n.requests, *redmine.requests)
            if seen.method != "GET"
        ]
    return _plain(outcomes), _plain(told)


def _plain(value: Any) -> Any:
    return json.loads(_VARYING.sub("…", json.dumps(value, ensure_ascii=False)))
