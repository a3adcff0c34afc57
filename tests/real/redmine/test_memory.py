"""Names of what was made in a real Redmine a moment ago."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.packs.redmine.office import TOOLS, Office
from tests.real.redmine.test_figures import LOCAL
from tests.support.tools import Hub
from tools_app import engine

pytestmark = pytest.mark.django_db(transaction=True)


def sent(office: Office, method: str, path: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    headers = {"X-Redmine-API-Key": office.keys["admin"], "Content-Type": "application/json"}
    with urlopen(Request(office.url + path, data, headers, method=method)) as response:  # noqa: S310
        text = response.read()
    return json.loads(text) if text.strip() else None


def called(name: str, **arguments: Any) -> Any:
    return engine.call_sync(name, arguments, LOCAL, door="code", options=engine.Options()).answer.value


def test_a_version_is_known_by_its_name_at_once(office: Office, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDMINE_HOST", office.url)
    monkeypatch.setenv("REDMINE_API_KEY", office.keys["manager"])
    hub.add(*TOOLS.values())
    number = called("create_issue", project_id="alpha", subject="x", fixed_version_id="1.0")["response"]["issue"]["id"]
    version = sent(office, "POST", "/projects/alpha/versions.json", {"version": {"name": "new"}})["version"]["id"]
    try:
        changed = called("update_issue", id=number, fixed_version_id="new")["response"]
        assert changed["issue"]["fixed_version"] == {"id": version, "name": "new"}
    finally:
        called("delete_issue", id=number)
        sent(office, "DELETE", f"/versions/{version}.json")
