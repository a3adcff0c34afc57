"""Actions are declared once: every change of governance checks its own, and every door agrees with the table."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import tools_app
from tests.admin.conftest import approval, browser_session, error_group
from tests.support import shop
from tests.support.tools import Hub
from tests.test_matrix import ALL, ENDPOINTS, endpoints
from tools_app import governance
from tools_app.access.actions import ACTIONS, EXECUTE, LIST, MANAGE, READ, SCOPES, STOP_KINDS, Action
from tools_app.alerts.routing import new_delivery
from tools_app.api import api
from tools_app.governance import Actor, probes
from tools_app.governance.stops import KINDS
from tools_app.models import Alert, ApiKey, AuditEntry, Definition, Stop
from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError
from tools_app.sdk.reach import Reach

EVENTS: Final = {action.event for action in ACTIONS if action.event}
CONNECTION: Final = {"url": "https://desk.example.org", "secret": "s3cret"}
Made = dict[str, Any]
DOCUMENT: Final = json.dumps(shop.document()).encode()
# How to call each function that makes a change, so that only the permission is missing.
CHANGES: Final[dict[str, Callable[[Made], tuple[tuple[Any, ...], dict[str, Any]]]]] = {
    "add_source": lambda made: (("wiki",), {"kind": "mcp_http", "location": "https://wiki.example.org/mcp"}),
    "add_error_note": lambda made: ((made["group"], "Seen"), {}),
    "add_tag": lambda made: (("night", ["echo"]), {}),
    "admit_source": lambda made: (("tracker",), {}),
    "acknowledge_alerts": lambda made: (([made["alert"]],), {}),
    "change_alert_rule": lambda made: (("mine",), {"enabled": False}),
    "create_alert_rule": lambda made: (("other",), {"url": "https://hooks.example.org/x"}),
    "delete_alert_rule": lambda made: (("mine",), {}),
    "resend_alert": lambda made: ((made["delivery"],), {}),
    "approve_call": lambda made: ((made["approval"],), {}),
    "approve_definitions": lambda made: (([made["definition"]],), {}),
    "approve_instructions": lambda made: (("tracker", ""), {}),
    "approve_tools": lambda made: (("tracker",), {}),
    "begin_sign_in": lambda made: (("main",), {"browser": governance.Browser("session", "http://hub/callback/")}),
    "change_connection": lambda made: (("main",), {"enabled": False}),
    "change_key": lambda made: ((made["key"],), {"connections": []}),
    "change_origin": lambda made: (("tracker",), {"per_session": True}),
    "change_source": lambda made: ((made["source"],), {"enabled": False}),
    "change_tool": lambda made: (("echo",), {"enabled": False, "policy": {}}),
    "change_toolset": lambda made: (("mine",), {"names": ["echo"]}),
    "create_admin": lambda made: (("eve", "correct horse battery"), {}),
    "create_connection": lambda made: (("other", "desk"), CONNECTION),
    "create_key": lambda made: (("other",), {}),
    "create_toolset": lambda made: (("other",), {}),
    "delete_connection": lambda made: (("main",), {}),
    "finish_sign_in": lambda made: (
        (governance.Redirect("state"),),
        {"browser": governance.Browser("session", "http://hub/callback/")},
    ),
    "sign_out": lambda made: (("main",), {}),
    "delete_tool": lambda made: (("echo",), {}),
    "delete_toolset": lambda made: (("mine",), {}),
    "describe_source": lambda made: ((made["source"],), {}),
    "note_backup": lambda made: ((timezone.now(), {"file": "a.backup"}), {}),
    "note_check": lambda made: (("main", "desk"), {"healthy": True, "words": "Well."}),
    "note_payload_read": lambda made: (("0" * 32,), {}),
    "note_payload_search": lambda made: (("text",), {}),
    "save_view": lambda made: (("mine", "q=a"), {"shared": False}),
    "change_view": lambda made: ((1,), {"name": "mine", "shared": False}),
    "delete_view": lambda made: ((1,), {}),
    "grant_standing": lambda made: ((made["approval"],), {"uses": 1, "lasts": timedelta(hours=1)}),
    "import_document": lambda made: (("made",), {"text": DOCUMENT}),
    "preview_document": lambda made: ((), {"text": DOCUMENT}),
    "preview_source": lambda made: (("shop",), {}),
    "read_document": lambda made: ((), {"text": DOCUMENT}),
    "replace_document": lambda made: (("shop",), {"text": DOCUMENT}),
    "select_operations": lambda made: (("shop", ["GET *"]), {}),
    "reconnect_source": lambda made: (("tracker",), {}),
    "refuse_call": lambda made: ((made["approval"],), {}),
    "refuse_definitions": lambda made: (([made["definition"]],), {}),
    "remove_source": lambda made: (("tracker",), {}),
    "remove_tag": lambda made: (("night", ["echo"]), {}),
    "assign_errors": lambda made: (([made["group"]], None), {}),
    "ignore_errors": lambda made: (([made["group"]],), {"reason": "known"}),
    "snooze_errors": lambda made: (([made["group"]], timezone.now() + timedelta(hours=1)), {}),
    "reopen_errors": lambda made: (([made["group"]],), {}),
    "resolve_errors": lambda made: (([made["group"]],), {}),
    "resume": lambda made: (("pack", "builtin"), {}),
    "revoke_key": lambda made: ((made["key"],), {}),
    "revoke_standing": lambda made: (("0" * 32,), {}),
    "rotate_key": lambda made: ((made["key"],), {"grace": timedelta()}),
    "rotate_secrets": lambda made: ((), {}),
    "settle_restored": lambda made: (("a.backup", timezone.now(), None), {"keys_as_of_backup": False}),
    "set_ask": lambda made: (("echo", True), {}),
    "set_enabled": lambda made: ((["echo"], False), {}),
    "set_hints": lambda made: (("echo",), {"read_only": True}),
    "add_user": lambda made: (("ann",), {"role": "viewer"}),
    "change_user": lambda made: ((made["user"],), {"name": "ann", "email": ""}),
    "deactivate_user": lambda made: ((made["user"],), {"keys": "stop"}),
    "delete_user": lambda made: ((made["user"],), {"keys": "stop"}),
    "end_sessions": lambda made: (([made["session"]],), {}),
    "make_link": lambda made: ((made["user"],), {}),
    "reactivate_user": lambda made: ((made["user"],), {}),
    "set_permissions": lambda made: ((made["user"],), {"groups": (), "permissions": ()}),
    "unlock_user": lambda made: ((made["user"],), {}),
    "set_role": lambda made: ((made["user"], "viewer"), {}),
    "open_emergency": lambda made: (("eve",), {}),
    "review_emergency": lambda made: ((1,), {}),
    "set_policy": lambda made: (("echo", {"timeout_ms": 5000}), {}),
    "test_source": lambda made: (("tracker",), {}),
    "stop": lambda made: (("hub",), {}),
}
# Record that a list was exported, or arguments were shown, which its page has permitted.
UNCHECKED: Final = {"note_arguments_read", "note_export"}


@pytest.fixture
def made(hub: Hub) -> Made:
    test = governance.trusted("test")
    hub.add()
    governance.create_toolset("mine", actor=test)
    governance.stop("pack", "builtin", actor=test)
    governance.add_source("tracker", kind="mcp_http", location="https://tracker.example.org/mcp", actor=test)
    governance.import_document("shop", text=DOCUMENT, actor=test)
    definition = Definition.objects.filter(tool__name="echo").select_related("tool__source").get()
    source = definition.tool.source
    assert source is not None
    user = User.objects.create_user("somebody")
    key: ApiKey = governance.create_key("agent", actor=test)[0]
    rule, _ = governance.create_alert_rule("mine", url="https://hooks.example.org/x", actor=test)
    alert = Alert.objects.latest("at")
    delivery = new_delivery(rule, timezone.now(), state="failed")
    delivery.save()
    return {
        "alert": alert.pk,
        "delivery": delivery.pk,
        "approval": approval().pk,
        "definition": definition.pk,
        "group": error_group().pk,
        "key": key,
        "source": source.name,
        "user": user,
        "session": browser_session(user),
    }


def without_rights() -> Iterator[Actor]:
    """A person, a program, and a program that may use tools."""
    yield governance.of_user(User.objects.create_user("guest"))
    for scopes in ((), (LIST, READ, EXECUTE)):
        yield governance.of_caller(Caller("key", "key:7", "agent", frozenset(scopes)))


def test_every_function_that_has_an_actor_is_listed() -> None:
    functions = {name for name in governance.__all__ if "actor" in parameters(getattr(governance, name))}
    assert functions - UNCHECKED == CHANGES.keys(), "say here how it is called"


def parameters(thing: object) -> set[str]:
    return set(inspect.signature(thing).parameters) if inspect.isfunction(thing) else set()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_without_permission_is_refused_and_leaves_nothing(made: Made, name: str) -> None:
    arguments, options = CHANGES[name](made)
    entries = AuditEntry.objects.count()
    for actor in without_rights():
        with CaptureQueriesContext(connection) as queries, pytest.raises(AuthorizationError, match="Permission denied"):
            getattr(governance, name)(*arguments, actor=actor, **options)
        assert not [sql for query in queries if re.match("INSERT|UPDATE|DELETE", sql := query["sql"])]
    assert AuditEntry.objects.count() == entries


def test_a_connection_is_not_tested_without_permission() -> None:
    actor = governance.of_caller(Caller("key", "key:7", "agent", frozenset({MANAGE})))
    with pytest.raises(AuthorizationError, match="requires scope admin"):
        asyncio.run(probes.test("main", actor=actor))
    with pytest.raises(AuthorizationError, match="requires scope admin"):
        probes.test_sync("main", actor=actor)


def test_a_person_needs_the_permission_of_the_action_alone(made: Made) -> None:
    ann = User.objects.create_user("ann")
    ann.user_permissions.add(Permission.objects.get(codename="change_stop"))
    ann = User.objects.get(pk=ann.pk)
    assert governance.stop("hub", actor=governance.of_user(ann))
    assert governance.resume("pack", "builtin", actor=governance.of_user(ann)), "people lift what others stopped"
    with pytest.raises(AuthorizationError):
        governance.set_enabled(["echo"], False, actor=governance.of_user(ann))


def test_a_program_lifts_no_restriction_without_being_an_administrator(made: Made) -> None:
    """The API refuses these before; another door could forget it."""
    governance.set_ask("echo", True, actor=governance.trusted("test"))
    manager = governance.of_caller(Caller("key", "key:7", "ci", frozenset({MANAGE})))
    with pytest.raises(AuthorizationError, match="your key cannot turn off the required approval of echo"):
        governance.set_ask("echo", False, actor=manager)
    with pytest.raises(AuthorizationError, match="your key cannot delete tools"):
        governance.delete_tool("echo", actor=manager)
    with pytest.raises(AuthorizationError, match="your key may resume only what it stopped itself"):
        governance.resume("pack", "builtin", actor=manager)
    assert Stop.objects.get().by == "test"


def test_a_key_restricted_to_toolsets_changes_nothing_that_concerns_all_tools(made: Made) -> None:
    restricted = governance.of_caller(Caller("key", "key:7", "ci", frozenset(SCOPES), Reach(frozenset({"mine"}))))
    for name in ("change_source", "change_toolset", "delete_tool", "describe_source", "resume", "stop"):
        arguments, options = CHANGES[name](made)
        with pytest.raises(AuthorizationError, match="manages the tools of its toolsets only"):
            getattr(governance, name)(*arguments, actor=restricted, **options)


def test_what_is_for_the_hub_alone_is_for_no_program() -> None:
    with pytest.raises(AuthorizationError, match=r"^Permission denied$"):
        Action().require(Caller("key", "key:7", "boss", frozenset(SCOPES)))


def test_every_entry_of_the_audit_trail_is_declared() -> None:
    """Filters offer what is declared. Names are also written by rooms below the table."""
    kinds = {event.partition(".")[0] for event in EVENTS}
    used = set()
    for path in Path(tools_app.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple | ast.Call):
                first = (node.elts if isinstance(node, ast.Tuple) else node.args)[:1]
                text = first[0].value if first and isinstance(first[0], ast.Constant) else None
                if isinstance(text, str) and re.fullmatch(r"[a-z]+\.[a-z]+", text) and text.partition(".")[0] in kinds:
                    used.add(text)
    assert {"tool.retire", "tool.register", "caller.forget"} <= used, "the search finds them"
    # The latter is an attribute of OpenTelemetry.
    assert used <= EVENTS | {"error.type"}


def test_doors_name_no_permission_and_ask_for_no_scope_themselves() -> None:
    """The engine checks the scopes of calls itself."""
    root = Path(tools_app.__file__).parent
    asking = re.compile(r"has_perms?\(|\.may\(|lacking\(|\"tools_app\.(?:add|change|delete|view)_")
    places = [
        f"{path.relative_to(root)}: {line.strip()}"
        for room in ("admin", "api", "governance", "management", "mcp_server", "setup")
        for path in sorted((root / room).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if asking.search(line)
    ]
    assert places == ['api/openapi.py: 403: errors.AuthorizationError.lacking("tools:manage"),'], "an example"


def test_stops_are_declared_for_every_kind() -> None:
    assert tuple(Stop.Kind.values) == STOP_KINDS == KINDS


def test_descriptions_of_the_api_name_the_scope_that_is_required() -> None:
    descriptions = {
        f"{method} /{'/'.join(filter(None, f'{prefix}{path}'.split('/')))}": operation.description or ""
        for prefix, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }
    assert descriptions.keys() == set(endpoints())
    for endpoint, description in descriptions.items():
        if scope := re.search(r"Requires\s+`([a-z]+:[a-z*]+)`", description):
            assert ENDPOINTS[endpoint] == scope[1], endpoint
        else:
            assert ENDPOINTS[endpoint] not in (MANAGE, ALL) or "/tools/" in endpoint, endpoint
