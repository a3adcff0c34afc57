"""Sources over REST, and deleting tools that no source provides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tests.support.tools import Hub, Programmable
from tools_app import governance, sources
from tools_app.models import AuditEntry, Source, SourceStatus, ToolRecord
from tools_app.sources import sync

SMALL = "tests.support.packs.small"
PLUGIN = "test:plugin"


@pytest.fixture
def ops(make_key: MakeKey) -> str:
    return make_key("ops", scopes=["tools:manage"])


@pytest.fixture
def root(make_key: MakeKey) -> str:
    return make_key("root", scopes=["admin:*"])


@pytest.fixture
def plugin(hub: Hub) -> Programmable:
    made = Programmable()
    hub.add(made.tool, kind=Source.Kind.PLUGIN)
    return made


def change(rest: Rest, key: str, body: Any, name: str = PLUGIN) -> Any:
    return rest.send("PATCH", f"/v1/sources/{name}", json.dumps(body), key=key)


def test_lists_sources_in_pages(rest: Rest, ops: str, plugin: Programmable) -> None:
    Source.objects.create(name="plugin:gone", kind="plugin", location="gone")
    response = rest.get("/v1/sources", key=ops)
    page = response.json()
    check_form("SourcePage", page)
    by_name = {source["name"]: source for source in page["sources"]}
    assert list(by_name) == sorted(by_name)
    assert by_name[SMALL]["kind"] == "shipped"
    assert by_name[SMALL]["state"] == "available"
    assert by_name[SMALL]["tools"] == ToolRecord.objects.filter(source__name=SMALL).count() > 0
    assert (by_name[PLUGIN]["trust"], by_name[PLUGIN]["effectiveTrust"]) == (None, "auto")
    assert (by_name["plugin:gone"]["state"], by_name["plugin:gone"]["describedAt"]) == ("not_configured", None)
    second = rest.get("/v1/sources?limit=1&page=2", key=ops).json()
    assert [source["name"] for source in second["sources"]] == [list(by_name)[1]]
    assert second["pagination"] == {"page": 2, "limit": 1, "total": len(by_name), "totalPages": len(by_name)}
    plugins = rest.get("/v1/sources?kind=plugin&enabled=true", key=ops).json()["sources"]
    assert [source["name"] for source in plugins] == ["plugin:gone", PLUGIN]
    failure(rest.get("/v1/sources?kind=other", key=ops), 400, "VALIDATION_ERROR")
    again = rest.get("/v1/sources", key=ops, If_None_Match=response.headers["ETag"])
    assert again.status_code == 304


def test_a_change_takes_what_is_named_and_leaves_the_rest(rest: Rest, ops: str, plugin: Programmable) -> None:
    policy = {"timeoutMs": 500, "retries": 1, "rateLimit": {"max": 5, "timeWindow": 2000}}
    response = change(rest, ops, {"enabled": False, "trust": "hold_all", "policy": policy, "reason": "it is moved"})
    detail = response.json()
    check_form("SourceDetail", detail)
    assert (detail["enabled"], detail["state"], detail["trust"]) == (False, "off", "hold_all")
    inherited = {"retryDelayMs": None, "cacheSeconds": None, "answerTokens": None}
    assert detail["policy"] == {**policy, **inherited}
    refused = rest.call("programmable", {}).json()
    assert refused["code"] == "TOOL_DISABLED"
    assert rest.get("/v1/tools/programmable", key=None).status_code == 401
    tool = rest.get("/v1/tools/programmable").json()
    assert tool["policy"]["timeoutMs"] == 500
    origins = tool["policy"]["origins"]
    assert (origins["timeoutMs"], origins["rateLimit"], origins["cacheSeconds"]) == ("source", "source", "settings")
    detail = change(rest, ops, {"enabled": True, "policy": {"rateLimit": None}}).json()
    assert (detail["enabled"], detail["trust"], detail["policy"]["timeoutMs"]) == (True, "hold_all", 500)
    assert detail["policy"]["rateLimit"] is None
    entry = AuditEntry.objects.get(action="source.disable")
    assert (entry.actor, entry.subject, entry.reason) == ("key:ops", f"source:{PLUGIN}", "it is moved")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"enabled": None}, "/enabled"),
        ({"enabled": "no"}, "/enabled"),
        ({"trust": ""}, "/trust"),
        ({"trust": "blind"}, "/trust"),
        ({"policy": {"retries": 4}}, "/policy/retries"),
        ({"policy": {"origins": {}}}, "/policy/origins"),
        ({"command": ["sh"]}, "/command"),
        ({"reason": "x" * 501}, "/reason"),
    ],
)
def test_refuses_what_makes_no_sense(rest: Rest, ops: str, plugin: Programmable, body: Any, path: str) -> None:
    told = failure(change(rest, ops, body), 400, "VALIDATION_ERROR")
    assert path in {detail["path"] for detail in told["details"]}
    assert not AuditEntry.objects.filter(subject=f"source:{PLUGIN}").exclude(action="source.sync").exists()


@pytest.mark.parametrize("name", ["none", "%00", "x" * 300, "tests.support"])
def test_an_unknown_source_is_not_found(rest: Rest, ops: str, name: str) -> None:
    failure(rest.get(f"/v1/sources/{name}", key=ops), 404, "NOT_FOUND")
    failure(change(rest, ops, {"enabled": False}, name), 404, "NOT_FOUND")
    failure(change(rest, ops, {"trust": "auto"}, name), 404, "NOT_FOUND")
    failure(rest.post(f"/v1/sources/{name}/describe", {}, key=ops), 404, "NOT_FOUND")


def test_a_program_makes_trust_stricter_only(rest: Rest, ops: str, root: str, plugin: Programmable) -> None:
    """Otherwise it could let a tool run that no operator has seen."""
    assert change(rest, ops, {"trust": "hold_changes"}).status_code == 200
    assert change(rest, ops, {"trust": "hold_all"}).status_code == 200
    for looser in ("hold_changes", "auto", None):
        failure(change(rest, ops, {"trust": looser, "enabled": False}), 403, "AUTHORIZATION_ERROR")
    assert Source.objects.get(name=PLUGIN).enabled
    assert change(rest, root, {"trust": None}).json()["effectiveTrust"] == "auto"


def test_a_key_of_toolsets_sees_no_sources(rest: Rest, make_key: MakeKey, plugin: Programmable) -> None:
    governance.create_toolset("some", names=["echo"], actor=governance.trusted("test"))
    bound = make_key("bound", scopes=["tools:manage"], toolsets=["some"])
    for response in (
        rest.get("/v1/sources", key=bound),
        rest.get(f"/v1/sources/{PLUGIN}", key=bound),
        change(rest, bound, {"enabled": False}),
        rest.post(f"/v1/sources/{PLUGIN}/describe", {}, key=bound),
    ):
        failure(response, 403, "AUTHORIZATION_ERROR")


def test_describing_again_says_what_has_changed(rest: Rest, ops: str, plugin: Programmable) -> None:
    sources.current().providers[PLUGIN].loaded().add(Programmable("late").tool)
    report = rest.post(f"/v1/sources/{PLUGIN}/describe", {"reason": "it was updated"}, key=ops).json()
    check_form("Description", report)
    assert (report["added"], report["unchanged"], report["source"]["tools"]) == (["late"], 1, 2)
    Source.objects.create(name="plugin:gone", kind="plugin")
    told = failure(rest.post("/v1/sources/plugin:gone/describe", {}, key=ops), 409, "CONFLICT")
    assert told["error"] == "Source plugin:gone cannot be described: this process does not have it"


def test_shows_what_could_not_be_loaded(rest: Rest, ops: str, plugin: Programmable) -> None:
    problems = [["plugin.py:3", "SyntaxError", ""], ["plugin.py:9", "its name is taken", "echo"]]
    SourceStatus.objects.filter(source__name=PLUGIN).update(problems=problems, error="plugin.py:3: SyntaxError")
    detail = rest.get(f"/v1/sources/{PLUGIN}", key=ops).json()
    assert (detail["state"], detail["error"]) == ("incomplete", "plugin.py:3: SyntaxError")
    assert detail["problems"] == [
        {"place": "plugin.py:3", "reason": "SyntaxError", "tool": None},
        {"place": "plugin.py:9", "reason": "its name is taken", "tool": "echo"},
    ]


# ---- deleting tools


def test_a_retired_tool_is_deleted_by_a_key_that_may_lift(
    rest: Rest, ops: str, root: str, make_key: MakeKey, plugin: Programmable
) -> None:
    def delete(key: str, name: str = "programmable") -> Any:
        return rest.send("DELETE", f"/v1/tools/{name}?reason=done", key=key)

    told = failure(delete(root), 409, "CONFLICT")
    assert told["nextStep"] == "Switch the tool off instead."
    sources.current().providers[PLUGIN].loaded().remove("programmable")
    with transaction.atomic():
        sync.sync_source(sources.current().providers[PLUGIN], actor="test")
    governance.create_toolset("some", names=["echo", "programmable"], actor=governance.trusted("test"))
    bound = make_key("bound", scopes=["admin:*"], toolsets=["some"])
    for refused in (ops, bound):
        failure(delete(refused), 403, "AUTHORIZATION_ERROR")
    response = delete(root)
    assert (response.status_code, response.content) == (204, b"")
    assert AuditEntry.objects.get(action="tool.delete").reason == "done"
    for name in ("programmable", "call", "search", "%00", "Echo!"):
        failure(delete(root, name), 404, "TOOL_NOT_FOUND")
