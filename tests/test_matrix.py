"""Access control: every role and every scope, against every endpoint, page and method.

The tables below are the decision. Endpoints, pages and methods come from the URLs, the routes and the server itself:
one without a decision fails. So does one that admits other callers than its table says.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple

import anyio
import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.test import Client as Browser
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone
from mcp.client.client import Client as Agent
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import ResourceTemplateReference

from tests.admin.conftest import agent, approval, error_group, failed_call, process, standing_approval
from tests.api.rest import Rest
from tests.mcp_server.test_skills import URI as SKILL
from tests.mcp_server.test_skills import asked, weather
from tests.support import shop
from tests.support.packs.desk import pack
from tests.support.tools import Hub
from tests.support.upstreams import ProgrammableUpstreams
from tools_app import engine, governance
from tools_app.access.actions import ADMIN, OPERATOR, VIEWER
from tools_app.alerts.routing import new_delivery
from tools_app.api import api
from tools_app.base import database
from tools_app.governance import SCOPES
from tools_app.mcp_server import server
from tools_app.mcp_server.changes import Changes, always
from tools_app.models import AuditEntry, Call, Connection, Definition, SavedView, Stop, ToolRecord
from tools_app.models.alerts import Event, new_alert
from tools_app.sdk.context import Caller
from tools_app.sdk.pack import Pack
from tools_app.sources import sync

__all__ = ["weather"]  # a fixture

# ---- REST: which scopes a key needs, all of them; or a person in a browser, whose role is worth some

OPEN, ANY_KEY = "open", "any key"
LIST, READ, EXECUTE, MANAGE, SOURCES, METRICS, ALL = SCOPES
PEOPLE: Final = {VIEWER: {LIST, READ, METRICS}, OPERATOR: {LIST, READ, EXECUTE, MANAGE, METRICS}, ADMIN: {ALL}}

ENDPOINTS: Final[dict[str, str]] = {
    "GET /": OPEN,
    "GET /health": OPEN,
    "GET /metrics": METRICS,
    "GET /.well-known/oauth-protected-resource": OPEN,
    "GET /.well-known/oauth-protected-resource/mcp": OPEN,
    "GET /.well-known/oauth-protected-resource/mcp/{toolset}": OPEN,
    "GET /.well-known/toolhub-client.json": OPEN,
    "GET /tools": OPEN,
    "POST /tools/call": OPEN,
    "GET /v1/openapi.json": ANY_KEY,
    "GET /v1/tools/openapi.json": f"{LIST} {EXECUTE}",
    "GET /v1/tools": LIST,
    "GET /v1/dependencies": LIST,
    "POST /v1/tools/search": LIST,
    "GET /v1/tags": LIST,
    "GET /v1/categories": LIST,
    "GET /v1/tools/{name}": READ,
    "GET /v1/tools/call": READ,
    "GET /v1/tools/search": READ,
    "PATCH /v1/tools/{name}": MANAGE,
    "PATCH /v1/tools/call": MANAGE,
    "PATCH /v1/tools/search": MANAGE,
    "DELETE /v1/tools/{name}": MANAGE,
    "DELETE /v1/tools/call": MANAGE,
    "DELETE /v1/tools/search": MANAGE,
    "POST /v1/tools/call": EXECUTE,
    "POST /v1/tools/{name}/call": EXECUTE,
    "GET /v1/budgets": LIST,
    "GET /v1/calls": ANY_KEY,
    "GET /v1/calls/{call_id}": ANY_KEY,
    "GET /v1/errors": MANAGE,
    "GET /v1/errors/{group_id}": MANAGE,
    "POST /v1/errors/{group_id}/resolve": MANAGE,
    "POST /v1/errors/{group_id}/reopen": MANAGE,
    "POST /v1/errors/{group_id}/ignore": MANAGE,
    "POST /v1/errors/{group_id}/snooze": MANAGE,
    "POST /v1/errors/{group_id}/assign": MANAGE,
    "POST /v1/errors/{group_id}/notes": MANAGE,
    "GET /v1/agents": MANAGE,
    "GET /v1/approvals": ANY_KEY,
    "GET /v1/approvals/{approval_id}": ANY_KEY,
    "POST /v1/approvals/{approval_id}/approve": MANAGE,
    "POST /v1/approvals/{approval_id}/refuse": MANAGE,
    "POST /v1/approvals/{approval_id}/standing": MANAGE,
    "GET /v1/standing-approvals": ANY_KEY,
    "GET /v1/standing-approvals/{standing_id}": ANY_KEY,
    "POST /v1/standing-approvals/{standing_id}/revoke": MANAGE,
    "GET /v1/definitions": MANAGE,
    "GET /v1/definitions/{definition_id}": MANAGE,
    "POST /v1/definitions/{definition_id}/approve": MANAGE,
    "POST /v1/definitions/{definition_id}/refuse": MANAGE,
    "GET /v1/sources": MANAGE,
    "GET /v1/sources/{source_name}": MANAGE,
    "PATCH /v1/sources/{source_name}": MANAGE,
    "POST /v1/sources": SOURCES,
    "DELETE /v1/sources/{source_name}": SOURCES,
    "POST /v1/sources/preview": SOURCES,
    "GET /v1/sources/{source_name}/operations": MANAGE,
    "PATCH /v1/sources/{source_name}/operations": SOURCES,
    "POST /v1/sources/{source_name}/document": SOURCES,
    "POST /v1/sources/{source_name}/test": SOURCES,
    "GET /v1/sources/{source_name}/admission": MANAGE,
    "POST /v1/sources/{source_name}/admission": SOURCES,
    "POST /v1/sources/{source_name}/approve": MANAGE,
    "POST /v1/sources/{source_name}/describe": MANAGE,
    "POST /v1/sources/{source_name}/reconnect": MANAGE,
    "GET /v1/stops": MANAGE,
    "POST /v1/stops": MANAGE,
    "POST /v1/stops/resume": MANAGE,
    "GET /v1/alerts": MANAGE,
    "GET /v1/alerts/{alert_id}": MANAGE,
    "POST /v1/alerts/acknowledge": MANAGE,
    "GET /v1/alert-rules": ALL,
    "POST /v1/alert-rules": ALL,
    "GET /v1/alert-rules/{rule_id}": ALL,
    "PATCH /v1/alert-rules/{rule_id}": ALL,
    "DELETE /v1/alert-rules/{rule_id}": ALL,
    "POST /v1/alert-rules/{rule_id}/test": ALL,
    "GET /v1/alert-rules/{rule_id}/deliveries": ALL,
    "POST /v1/alert-rules/{rule_id}/deliveries/{delivery_id}/resend": ALL,
    "GET /v1/audit": ALL,
    "GET /v1/keys": ALL,
    "POST /v1/keys": ALL,
    "GET /v1/keys/{key_id}": ALL,
    "POST /v1/keys/{key_id}/rotate": ALL,
    "POST /v1/keys/{key_id}/revoke": ALL,
    "GET /v1/toolsets": ALL,
    "POST /v1/toolsets": ALL,
    "GET /v1/toolsets/{name}": ALL,
    "PATCH /v1/toolsets/{name}": ALL,
    "DELETE /v1/toolsets/{name}": ALL,
    "GET /v1/connections": ALL,
    "POST /v1/connections": ALL,
    "GET /v1/connections/{connection_id}": ALL,
    "PATCH /v1/keys/{key_id}": ALL,
    "PATCH /v1/connections/{connection_id}": ALL,
    "DELETE /v1/connections/{connection_id}": ALL,
    "POST /v1/connections/{connection_id}/test": ALL,
}
# Programs need admin:*, as this removes what operators have decided.
PEOPLE_ONLY: Final = {"DELETE /v1/tools/{name}", "DELETE /v1/tools/call", "DELETE /v1/tools/search"}
# Only for sources that are OpenAPI documents.
OF_DOCUMENTS: Final = {
    *(f"{method} /v1/sources/{{source_name}}/operations" for method in ("GET", "PATCH")),
    "POST /v1/sources/{source_name}/document",
}
# Not for sources that are Python code.
OF_OUTSIDE: Final = {
    "DELETE /v1/sources/{source_name}",
    *(f"POST /v1/sources/{{source_name}}/{verb}" for verb in ("test", "admission", "approve", "reconnect")),
}
BODIES: Final[dict[str, dict[str, Any]]] = {
    "POST /v1/alerts/acknowledge": {"ids": ["0" * 32]},
    "POST /v1/alert-rules": {"name": "made", "url": "https://hooks.example.org/x"},
    "POST /v1/tools/call": {"name": "echo", "parameters": {"message": "hi"}},
    "POST /v1/tools/{name}/call": {"message": "hi"},
    "POST /v1/tools/search": {"query": "echo"},
    "POST /v1/keys": {"name": "made"},
    "PATCH /v1/keys/{key_id}": {"connections": []},
    "POST /v1/approvals/{approval_id}/standing": {"uses": 1, "seconds": 60},
    "POST /v1/errors/{group_id}/ignore": {"reason": "Known"},
    "POST /v1/errors/{group_id}/snooze": {"until": (timezone.now() + timedelta(days=1)).isoformat()},
    "POST /v1/errors/{group_id}/assign": {"user": None},
    "POST /v1/errors/{group_id}/notes": {"text": "Seen"},
    "POST /v1/sources": {"name": "made", "location": "https://wiki.example.org/mcp"},
    "POST /v1/sources/preview": {"document": json.dumps(shop.document())},
    "PATCH /v1/sources/{source_name}/operations": {"select": ["GET *"]},
    "POST /v1/sources/{source_name}/document": {"document": json.dumps(shop.document())},
    "POST /v1/stops": {"kind": "pack", "name": "builtin"},
    "POST /v1/stops/resume": {"kind": "pack", "name": "builtin"},
    "POST /v1/toolsets": {"name": "made"},
    "POST /v1/connections": {"name": "made", "pack": "desk", "url": "https://desk.example.org", "secret": "s3cret"},
}
# Pages beside the admin, for whoever may enter it; a browser cannot send a key.
PAGES_FOR_STAFF: Final = {"/v1/docs"}
# What is no endpoint: the end of the list, where nothing is; ninja's own root, which `GET /` hides; files of pages.
NOTHING: Final = {"^v1(?:/.*)?\\Z", "", "static/<path:path>"}


def endpoints() -> Iterator[str]:
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                for method in operation.methods:
                    yield f"{method} /" + "/".join(filter(None, f"{prefix}{path}".split("/")))


def test_every_endpoint_is_decided() -> None:
    assert sorted(set(endpoints())) == sorted(ENDPOINTS)


def test_every_address_is_an_endpoint_or_a_page() -> None:
    known = {endpoint.partition(" /")[2].replace("{", "<").replace("}", ">") for endpoint in ENDPOINTS}
    there = {pattern for pattern, _ in addresses(get_resolver().url_patterns) if not pattern.startswith("admin/")}
    assert there == known | NOTHING | {page.removeprefix("/") for page in PAGES_FOR_STAFF}


@pytest.mark.parametrize("page", PAGES_FOR_STAFF)
def test_a_page_for_staff_admits_only_staff(hub: Hub, page: str) -> None:
    rest = Rest(governance.create_key("all", actor=governance.trusted("test"), scopes=[ALL])[1])
    try:
        refused = [rest.get(page), rest.get(page, key=None)]
        rest.client.force_login(User.objects.create_user("guest"))
        refused.append(rest.get(page, key=None))
        assert {response.status_code for response in refused} == {302}
        rest.client.force_login(person(STAFF))
        assert rest.get(page, key=None).status_code == 200
    finally:
        rest.close()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_endpoint_admits_the_right_callers(hub: Hub, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    group = error_group()
    hub.add(*pack.tools)
    method, _, path = endpoint.partition(" ")
    ids = {"toolset": "x", "connection_id": "none", "call_id": "0" * 32, "key_id": "0", "group_id": group.pk}
    ids |= {"approval_id": "0" * 32, "standing_id": "0" * 32, "definition_id": "0"}
    ids |= {"alert_id": "0" * 32, "rule_id": "0", "delivery_id": "0" * 32}
    ids["source_name"] = "tests.support.packs.small"
    if endpoint in OF_OUTSIDE:
        ProgrammableUpstreams().connect(monkeypatch)
        # Nothing listens there.
        url, by = "http://127.0.0.1:9/mcp", governance.trusted("test")
        ids["source_name"] = governance.add_source(
            "tracker", kind="mcp_http", location=url, internal=True, actor=by
        ).name
    if endpoint in OF_DOCUMENTS:
        text = json.dumps(shop.document()).encode()
        ids["source_name"] = governance.import_document("shop", text=text, actor=governance.trusted("test")).name
    path = path.format(name="none" if endpoint in PEOPLE_ONLY else "echo", **ids)
    body = BODIES.get(endpoint, {})
    needed = ENDPOINTS[endpoint]
    rest, numbers = Rest(""), itertools.count()

    def has_access(key: str | None) -> bool:
        # A request that creates something uses a new name.
        made = f"made{next(numbers)}" if "sources" in path else f"made-{next(numbers)}"
        sent = b"" if method == "GET" else json.dumps(body).replace("made", made)
        response = rest.send(method, path, sent, key=key)
        if response.status_code in (401, 403):
            assert response.json()["code"] in ("AUTHENTICATION_ERROR", "AUTHORIZATION_ERROR")
            return False
        assert response.status_code < 400 or response.status_code == 404, response.content
        return True

    try:
        admitted = {"anonymous": has_access(None)}
        for role in PEOPLE:
            rest.client.force_login(person(role))
            admitted[f"{role} in a browser"] = has_access(None)
            rest.client.logout()
        for name, scopes in {"no scope": [], **{scope: [scope] for scope in SCOPES}}.items():
            admitted[name] = has_access(governance.create_key(name, actor=governance.trusted("test"), scopes=scopes)[1])
    finally:
        rest.close()
    has: dict[str, set[str]] = {"no scope": set(), **{scope: {scope} for scope in SCOPES}}
    has |= {f"{role} in a browser": scopes for role, scopes in PEOPLE.items()}
    wanted = set() if needed in (OPEN, ANY_KEY) else set(needed.split())
    expected = {name for name, scopes in has.items() if ALL in scopes or wanted <= scopes}
    if needed == OPEN:
        expected.add("anonymous")
    if endpoint in PEOPLE_ONLY:
        expected.discard(needed)
    assert {name for name, is_admitted in admitted.items() if is_admitted} == expected


# ---- MCP: what a caller needs. The rest is the protocol's own, and says nothing of the tools.

METHODS: Final[dict[str, str]] = {
    "tools/list": LIST,
    "tools/call": EXECUTE,
    "prompts/list": LIST,
    "prompts/get": EXECUTE,  # It runs what its pack has written.
    "resources/list": LIST,
    "resources/templates/list": LIST,
    "resources/read": READ,  # Of the hub's own; those of packs are run, and need EXECUTE.
    "resources/subscribe": READ,
    "resources/unsubscribe": OPEN,
    "completion/complete": LIST,
    "server/discover": OPEN,
    "logging/setLevel": OPEN,
    "ping": OPEN,
    "subscriptions/listen": OPEN,
    "skills/list": LIST,
    "skills/get": LIST,
}
ASKING: Final[dict[str, Callable[[Agent], Awaitable[object]]]] = {
    "tools/list": lambda agent: agent.list_tools(),
    "prompts/list": lambda agent: agent.list_prompts(),
    "prompts/get": lambda agent: agent.get_prompt("diagnose_failures", {"tool": "echo"}),
    "resources/list": lambda agent: agent.list_resources(),
    "resources/templates/list": lambda agent: agent.list_resource_templates(),
    "resources/read": lambda agent: agent.read_resource("toolhub://tools"),
    "resources/subscribe": lambda agent: agent.session.subscribe_resource("toolhub://tools"),
    "completion/complete": lambda agent: agent.complete(
        ResourceTemplateReference(uri="toolhub://tools/{name}"), {"name": "name", "value": "e"}
    ),
    "skills/list": lambda agent: asked(agent, "skills/list"),
    "skills/get": lambda agent: asked(agent, "skills/get", uri=SKILL),
    # This client lists the tools to check an answer it has got: whether there was one, the journal knows.
    "tools/call": lambda agent: agent.call_tool("echo", {"message": "hi"}),
}


@pytest.mark.anyio
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_every_method_is_decided_and_admits_the_right_callers(hub: Hub, weather: Pack) -> None:
    assert ASKING.keys() == {method for method, needed in METHODS.items() if needed != OPEN}
    engine.adopt_running_loop()
    found: dict[str, set[str]] = {method: set() for method in ASKING}
    try:
        for scope in SCOPES:
            served = served_to(Caller("key", "key:1", scope, frozenset({scope})))
            assert set(served._request_handlers) == set(METHODS)
            with anyio.fail_after(30):
                async with Agent(served, mode="legacy", cache=None) as agent:
                    for method, ask in ASKING.items():
                        with contextlib.suppress(MCPError):
                            await ask(agent)
                            found[method].add(scope)
    finally:
        await engine.close(5)
    calls = Call.objects.filter(status="succeeded", tool_name="echo").values_list("caller_name", flat=True)
    found["tools/call"] = await database.run(lambda: set(calls))
    assert found == {method: {METHODS[method], ALL} for method in ASKING}


def served_to(caller: Caller) -> Server[Any]:
    return server.build(Changes(always(caller)), lambda _: caller)


# ---- the admin: the least role that gets a page, and the least that may send something to it

ANYBODY, STAFF, NOBODY = "anybody", "staff", "nobody"
ROLES: Final = (ANYBODY, STAFF, VIEWER, OPERATOR, ADMIN, NOBODY)


class Pages(NamedTuple):
    """The pages of a model. To see is to get its list, its history and the page of one; nobody sends to a history."""

    see: str
    change: str = NOBODY
    add: str = NOBODY
    delete: str = NOBODY


MODELS: Final = {
    "tools_app_agent": Pages(see=VIEWER),
    "tools_app_alert": Pages(see=VIEWER),
    "tools_app_alertdelivery": Pages(see=ADMIN),
    "tools_app_alertrule": Pages(see=ADMIN, change=ADMIN, add=ADMIN),
    "tools_app_approval": Pages(see=VIEWER),
    "tools_app_auditentry": Pages(see=VIEWER),
    "tools_app_call": Pages(see=VIEWER),
    "tools_app_errorgroup": Pages(see=VIEWER),
    "tools_app_errorlog": Pages(see=VIEWER),
    "tools_app_definition": Pages(see=VIEWER),
    "tools_app_process": Pages(see=VIEWER),
    "tools_app_standingapproval": Pages(see=VIEWER),
    "tools_app_stop": Pages(see=VIEWER),
    "tools_app_source": Pages(see=VIEWER, change=OPERATOR, add=ADMIN),
    "tools_app_toolrecord": Pages(see=VIEWER, change=OPERATOR),
    "tools_app_apikey": Pages(see=ADMIN, add=ADMIN, change=ADMIN),
    "tools_app_toolset": Pages(see=ADMIN, change=ADMIN, add=ADMIN),
    "tools_app_connection": Pages(see=OPERATOR, change=ADMIN, add=ADMIN),
    "auth_user": Pages(see=ADMIN, change=ADMIN, add=ADMIN, delete=ADMIN),
    "auth_group": Pages(see=ADMIN, change=ADMIN, add=ADMIN, delete=ADMIN),
}
# Page: who gets it, and who may send something to it.
PAGES: Final[dict[str, tuple[str, str]]] = {
    "login": (ANYBODY, ANYBODY),
    "index": (STAFF, STAFF),
    "app_list": (VIEWER, VIEWER),
    "search": (STAFF, STAFF),
    "password_change": (STAFF, STAFF),
    "password_change_done": (STAFF, NOBODY),
    "jsi18n": (STAFF, NOBODY),
    "autocomplete": (NOBODY, NOBODY),
    "view_on_site": (NOBODY, NOBODY),
    "tools_app_alert_acknowledge": (NOBODY, OPERATOR),
    "tools_app_alert_export": (VIEWER, NOBODY),
    "tools_app_alertdelivery_export": (ADMIN, NOBODY),
    "tools_app_alertdelivery_resend": (NOBODY, ADMIN),
    "tools_app_alertrule_remove": (NOBODY, ADMIN),
    "tools_app_alertrule_test": (NOBODY, ADMIN),
    "tools_app_apikey_export": (NOBODY, ADMIN),
    "tools_app_apikey_revoke": (NOBODY, ADMIN),
    "tools_app_apikey_rotate": (NOBODY, ADMIN),
    "tools_app_approval_decide": (NOBODY, OPERATOR),
    "tools_app_approval_standing": (NOBODY, OPERATOR),
    "tools_app_auditentry_export": (VIEWER, NOBODY),
    "tools_app_call_discard": (NOBODY, VIEWER),
    "tools_app_call_edit": (NOBODY, VIEWER),
    "tools_app_call_export": (VIEWER, NOBODY),
    "tools_app_call_keep": (NOBODY, VIEWER),
    "tools_app_call_saved": (VIEWER, NOBODY),
    "tools_app_call_shown": (VIEWER, NOBODY),
    "tools_app_connection_remove": (NOBODY, ADMIN),
    "tools_app_connection_test": (NOBODY, OPERATOR),
    "tools_app_connection_sign_in": (NOBODY, ADMIN),
    "tools_app_connection_signed_in": (ADMIN, NOBODY),
    "tools_app_connection_sign_out": (NOBODY, ADMIN),
    "tools_app_definition_decide": (NOBODY, OPERATOR),
    "tools_app_errorgroup_decide": (NOBODY, OPERATOR),
    "tools_app_errorgroup_export": (VIEWER, NOBODY),
    "tools_app_errorgroup_note": (NOBODY, OPERATOR),
    "tools_app_errorlog_export": (VIEWER, NOBODY),
    "tools_app_source_admission": (VIEWER, VIEWER),
    "tools_app_source_admit": (NOBODY, NOBODY),  # of a source that does not exist, since it works in a thread
    "tools_app_source_decide": (NOBODY, OPERATOR),
    "tools_app_source_document": (ADMIN, ADMIN),
    "tools_app_source_add_document": (ADMIN, ADMIN),
    "tools_app_source_operations": (ADMIN, ADMIN),
    "tools_app_source_describe": (NOBODY, OPERATOR),
    "tools_app_source_instructions": (NOBODY, OPERATOR),
    "tools_app_source_named": (VIEWER, VIEWER),
    "tools_app_source_import": (ADMIN, ADMIN),
    "tools_app_source_origin": (ADMIN, ADMIN),
    "tools_app_source_reconnect": (NOBODY, OPERATOR),
    "tools_app_source_remove": (ADMIN, ADMIN),
    "tools_app_source_switch": (NOBODY, OPERATOR),
    "tools_app_source_test": (NOBODY, NOBODY),  # of a source that does not exist, since it works in a thread
    "tools_app_apikey_first_request": (ADMIN, ADMIN),
    "tools_app_search": (STAFF, NOBODY),
    "tools_app_usage": (VIEWER, NOBODY),
    "tools_app_process_data": (VIEWER, NOBODY),
    "tools_app_process_live": (STAFF, NOBODY),  # says only of what each may read
    "tools_app_process_live_frame": (STAFF, NOBODY),
    "tools_app_process_settings": (NOBODY, NOBODY),  # superusers only
    "tools_app_standingapproval_revoke": (NOBODY, OPERATOR),
    "tools_app_auditentry_review": (NOBODY, ADMIN),
    "tools_app_stop_switch": (NOBODY, OPERATOR),
    "tools_app_toolrecord_hints": (NOBODY, OPERATOR),
    "tools_app_toolrecord_many": (OPERATOR, OPERATOR),
    "tools_app_toolrecord_named": (VIEWER, VIEWER),
    "tools_app_toolrecord_remove": (NOBODY, OPERATOR),
    "tools_app_toolrecord_switch": (NOBODY, OPERATOR),
    "tools_app_toolrecord_try": (OPERATOR, OPERATOR),
    "tools_app_toolset_preview": (NOBODY, ADMIN),
    "tools_app_toolset_remove": (NOBODY, ADMIN),
    "tools_app_browsersession_end": (NOBODY, STAFF),  # everyone their own
    "tools_app_browsersession_end_all": (NOBODY, STAFF),
    "tools_app_browsersession_changelist": (STAFF, STAFF),
    "tools_app_browsersession_change": (STAFF, STAFF),
    "tools_app_browsersession_history": (STAFF, STAFF),
    "tools_app_browsersession_add": (NOBODY, NOBODY),
    "tools_app_browsersession_delete": (NOBODY, NOBODY),
    "auth_user_choose_password": (ANYBODY, ANYBODY),
    "auth_user_deactivate": (ADMIN, ADMIN),
    "auth_user_link": (NOBODY, ADMIN),
    "auth_user_permissions": (ADMIN, ADMIN),
    "auth_user_reactivate": (NOBODY, ADMIN),
    "auth_user_unlock": (NOBODY, ADMIN),
}
for _model, _may in MODELS.items():
    PAGES[f"{_model}_changelist"] = PAGES[f"{_model}_history"] = (_may.see, _may.see)
    PAGES[f"{_model}_change"] = (_may.see, _may.change)
    PAGES[f"{_model}_add"] = (_may.add, _may.add)
    PAGES[f"{_model}_delete"] = (_may.delete, _may.delete)


def pages() -> set[str]:
    return {name for _, name in addresses(admin.site.urls[0]) if name is not None}


def test_every_page_of_the_admin_is_decided() -> None:
    assert pages() - PAGES.keys() == {"logout"}, "decide who gets these"
    assert PAGES.keys() - pages() == set(), "these are gone"


@pytest.fixture
def subjects(db: None) -> dict[str, Any]:
    return make_subjects()


def make_subjects() -> dict[str, Any]:
    """One of each kind that has a page."""
    sync.sync()
    call, error = failed_call()
    by = governance.trusted("test")
    # Nothing listens there.
    source = governance.add_source("wiki", kind="mcp_http", location="http://127.0.0.1:9/mcp", internal=True, actor=by)
    imported = governance.import_document("shop", text=json.dumps(shop.document()).encode(), actor=by)
    # Nothing listens there, either.
    rule, _ = governance.create_alert_rule("mine", url="http://127.0.0.1:9/x", internal=True, actor=by)
    about = new_alert(Event.STOP_SET, "test", timezone.now(), details={"kind": "hub", "what": "the hub"})
    about.save()
    delivery = new_delivery(rule, timezone.now(), alert=about, state="failed")
    delivery.save()
    return {
        "tools_app_alert": about.pk,
        "tools_app_alertrule": rule.pk,
        "tools_app_alertdelivery": delivery.pk,
        "tools_app_source_document": imported.pk,
        "tools_app_source_operations": imported.pk,
        "tools_app_source_admit": 0,
        "tools_app_source_test": 0,
        "tools_app_toolrecord_hints": ToolRecord.objects.create(name="wiki_read", source=source).pk,
        "tools_app_agent": agent().pk,
        "tools_app_approval": approval().pk,
        "tools_app_auditentry": AuditEntry.objects.all()[0].pk,
        "tools_app_call": call.pk,
        "tools_app_errorgroup": error_group().pk,
        "tools_app_errorlog": error.pk,
        "tools_app_definition": Definition.objects.all()[0].pk,
        "tools_app_process": process().pk,
        "tools_app_source": source.pk,
        "tools_app_standingapproval": standing_approval().pk,
        "tools_app_stop": Stop.objects.create(kind="hub", by="user:test").pk,
        "tools_app_toolrecord": ToolRecord.objects.get(name="echo").pk,
        "tools_app_toolset": governance.create_toolset("mine", actor=governance.trusted("test")).pk,
        "tools_app_connection": Connection.objects.create(name="mine", pack="desk", sealed=b"").pk,
        "tools_app_apikey": governance.create_key("agent", actor=governance.trusted("test"))[0].pk,
        "tools_app_browsersession": 0,
        "auth_user": (user := User.objects.create_user("somebody")).pk,
        "saved view": SavedView.objects.create(
            name="all", query="q=a", is_shared=True, owner=user, created_at=timezone.now()
        ).pk,
        "auth_group": Group.objects.create(name="night shift").pk,
    }


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_admin_admits_the_right_roles(subjects: dict[str, Any], page: str) -> None:
    address = address_of(page, subjects)
    browsers = {role: Browser() for role in ROLES[:-1]}
    for role in ROLES[1:-1]:
        browsers[role].force_login(person(role))
    for method, least in zip(("get", "post"), PAGES[page], strict=True):
        admitted = {role for role, browser in browsers.items() if is_admitted(browser, method, address)}
        assert admitted == set(ROLES[ROLES.index(least) : -1]), method


def is_admitted(browser: Browser, method: str, address: str) -> bool:
    # Undone before the next request, which comes from somebody else.
    undo = transaction.savepoint()
    response = getattr(browser, method)(address)
    transaction.savepoint_rollback(undo)
    # A form that was sent empty is wrong, but it was looked at.
    assert response.status_code in (200, 302, 400, 403, 404, 405)
    return response.status_code < 403 and not response.headers.get("Location", "").startswith("/admin/login/")


def address_of(page: str, subjects: dict[str, Any]) -> str:
    of_none: dict[str, dict[str, Any]] = {
        "app_list": {"app_label": "tools_app"},
        "view_on_site": {"content_type_id": 1, "object_id": 1},
    }
    if page in ("tools_app_call_discard", "tools_app_call_edit", "tools_app_call_shown"):
        of_none[page] = {"pk": subjects["saved view"]}
    subject = next((pk for model, pk in subjects.items() if f"{page}_".startswith(f"{model}_")), None)
    for parameters in (of_none.get(page), {"object_id": subject}, {"pk": subject}, {"id": subject}):
        with contextlib.suppress(NoReverseMatch):
            return reverse(f"admin:{page}", kwargs=parameters)
    raise AssertionError(f"what does the address of {page} need?")


# ---- both


def person(role: str) -> User:
    made = User.objects.create_user(f"a-{role}", is_staff=True)
    if role != STAFF:
        made.groups.add(Group.objects.get(name=role))
    return made


def addresses(patterns: Iterable[URLPattern | URLResolver], before: str = "") -> Iterator[tuple[str, str | None]]:
    """Every address there is, as its pattern, and its name."""
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, before + str(pattern.pattern))
        else:
            yield before + str(pattern.pattern), pattern.name
