"""What a key may not reach: what lies outside its toolsets is not there, what it may not use says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, failure
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.base import secrets
from tools_app.models import ApiKey
from tools_app.sdk.hints import Hints


@pytest.fixture
def wiki(hub: Hub) -> None:
    hub.add(
        Programmable("find_page", tags=("wiki",)).tool,
        Programmable("write_page", tags=("wiki",), hints=Hints(read_only=False)).tool,
    )
    governance.create_toolset("wiki", actor=governance.trusted("test"), tags=["wiki"])


def test_what_lies_outside_the_toolsets_of_a_key_is_not_there(rest: Rest, make_key: MakeKey, wiki: None) -> None:
    key = make_key("agent", toolsets=["wiki"])
    listed = rest.get("/v1/tools", key=key).json()
    assert [tool["name"] for tool in listed["tools"]] == ["find_page", "read_result", "write_page"]
    assert listed["pagination"]["total"] == 3
    assert rest.get("/v1/tools?category=math", key=key).json()["tools"] == []
    hidden = failure(rest.get("/v1/tools/echo", key=key), 404, "TOOL_NOT_FOUND")
    never = failure(rest.get("/v1/tools/nope", key=key), 404, "TOOL_NOT_FOUND")
    assert same(hidden) == {**same(never), "error": hidden["error"]}
    failure(rest.call("echo", {"message": "hi"}, key=key), 404, "TOOL_NOT_FOUND")
    assert rest.call("find_page", key=key).status_code == 200
    assert rest.call("echo", {"message": "hi"}).status_code == 200, "others see it"


def test_tools_above_the_access_level_are_listed_with_the_reason(rest: Rest, make_key: MakeKey, wiki: None) -> None:
    key = make_key("reader", toolsets=["wiki"], may_write=False)
    shown = {tool["name"]: tool for tool in rest.get("/v1/tools", key=key).json()["tools"]}
    assert shown["find_page"]["available"] is True
    assert shown["write_page"]["available"] is False
    reason = "Permission denied: write_page can write, and you may not use tools that do"
    assert shown["write_page"]["unavailableReason"] == reason
    told = failure(rest.call("write_page", key=key), 403, "AUTHORIZATION_ERROR")
    assert told["error"] == reason


def test_a_changed_toolset_is_true_for_the_next_request(rest: Rest, make_key: MakeKey, wiki: None) -> None:
    key = make_key("agent", toolsets=["wiki"])
    assert rest.get("/v1/tools/find_page", key=key).status_code == 200
    governance.change_toolset("wiki", actor=governance.trusted("test"), tags=[], names=["echo"])
    failure(rest.get("/v1/tools/find_page", key=key), 404, "TOOL_NOT_FOUND")
    assert rest.get("/v1/tools/echo", key=key).status_code == 200


def test_every_key_that_does_not_open_is_refused_alike(rest: Rest, make_key: MakeKey, settings: Any) -> None:
    settings.TOOLHUB_ANONYMOUS_RATE_CALLS = 0
    ended, late = make_key("ended"), make_key("late")
    governance.revoke_key(ApiKey.objects.get(name="ended"), actor=governance.trusted("test"))
    ApiKey.objects.filter(name="late").update(expires_at=timezone.now())
    mistyped = rest.key[:-1] + ("a" if rest.key[-1] != "a" else "b")
    refused = [rest.get("/v1/tools", key=key) for key in (secrets.new_key()[0], mistyped, ended, late, "thub_x")]
    told = {json.dumps(same(failure(response, 401, "AUTHENTICATION_ERROR"))) for response in refused}
    assert len(told) == 1
    assert len({str(sorted(response.headers.items())) for response in refused}) == 1


def same(told: dict[str, Any]) -> dict[str, Any]:
    """Without what differs between any two answers."""
    return {name: value for name, value in told.items() if name not in ("timestamp", "callId", "errorId", "requestId")}
