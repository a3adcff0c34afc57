"""The addresses that are open to everybody: the sign, the health, the old addresses."""

from __future__ import annotations

import pytest
from django.db import connection

from tests.api.rest import TIMESTAMP, Rest, failure
from tests.support.tools import Hub
from tools_app import governance
from tools_app.base import database


def test_the_sign_says_what_the_document_says_without_a_key(rest: Rest) -> None:
    first = rest.get("/", key=None)

    told = first.json()
    assert first.status_code == 200
    assert first.headers["Content-Type"] == "application/json"
    assert told.keys() == {"status", "message", "version", "uptime", "timestamp"}
    assert (told["status"], told["message"]) == ("ok", "MCP Server is running")
    assert TIMESTAMP.fullmatch(told["timestamp"])
    assert rest.get("/", key=None).json()["uptime"] > told["uptime"] > 0


def test_the_sign_leads_browsers_to_the_admin_and_only_them(rest: Rest) -> None:
    html = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    led = rest.get("/", key=None, Accept=html)
    assert (led.status_code, led.headers["Location"]) == (302, "/admin/")
    for accepted in ("*/*", "application/json", "application/json, text/event-stream", ""):
        sign = rest.get("/", key=None, Accept=accepted)
        assert sign.json()["message"] == "MCP Server is running"
        # Caches keep the answers apart.
        assert led.headers["Vary"] == sign.headers["Vary"] == "Accept"


def test_a_hub_that_works_is_healthy(rest: Rest) -> None:
    response = rest.get("/health", key=None)

    assert response.status_code == 200
    told = response.json()
    assert TIMESTAMP.fullmatch(told.pop("timestamp"))
    assert told == {
        "status": "healthy",
        "checks": {"database": "pass", "tools": "pass"},
        "stopped": False,
        "maintenance": False,
        "backupAgeSeconds": None,
        "disk": "pass",
        "limits": "process",
    }


def test_a_hub_in_which_no_tool_can_be_called_is_degraded(rest: Rest, all_off: None) -> None:
    response = rest.get("/health", key=None)

    assert response.status_code == 503
    assert response.json()["status"] == "degraded"
    assert response.json()["checks"] == {"database": "pass", "tools": "warn"}


def test_a_hub_without_its_database_is_unhealthy_and_says_no_more(rest: Rest, no_database: None) -> None:
    response = rest.get("/health", key=None)

    assert response.status_code == 503
    told = response.json()
    del told["timestamp"]
    assert told == {
        "status": "unhealthy",
        "checks": {"database": "fail", "tools": "fail"},
        "stopped": False,
        "maintenance": False,
        "backupAgeSeconds": None,
        "disk": "pass",
        "limits": "process",
    }


def test_without_its_database_the_hub_refuses_with_503_and_the_sign_stays(rest: Rest, no_database: None) -> None:
    told = failure(rest.get("/v1/tools"), 503, "STORAGE_BUSY")

    assert told["retryable"] is True
    assert rest.get("/", key=None).status_code == 200


@pytest.mark.parametrize("query", ["", "?a=1", "?category=a%20b&tag=%C3%A4", "?x=%0D%0ASet-Cookie:%20a=b", "?q=//evil"])
def test_the_old_list_leads_to_the_new_one_with_its_query(rest: Rest, query: str) -> None:
    response = rest.get(f"/tools{query}", key=None)

    assert response.status_code == 302
    assert response.headers["Location"] == f"/v1/tools{query}"
    assert response.content == b""
    assert "Content-Type" not in response.headers
    assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("query", ["", "?a=1&b=2"])
def test_the_old_call_leads_to_the_new_one_with_method_body_and_query(rest: Rest, query: str) -> None:
    response = rest.post(f"/tools/call{query}", {"name": "echo"}, key=None)

    assert response.status_code == 307
    assert response.headers["Location"] == f"/v1/tools/call{query}"


@pytest.fixture
def all_off(hub: Hub) -> None:
    governance.set_enabled(["echo", "calculate", "read_result"], False, actor=governance.trusted("test"))


@pytest.fixture
def no_database(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database cannot be opened any more."""
    database.close()
    monkeypatch.setitem(connection.settings_dict, "NAME", "/nowhere/db")
