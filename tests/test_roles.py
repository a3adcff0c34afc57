"""Permissions of viewer, operator and admin; every permission is decided."""

from __future__ import annotations

from typing import Any, Final

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from tools_app.access import access, actions
from tools_app.governance import roles

pytestmark = pytest.mark.django_db

ALL = ("add", "change", "delete", "view")
# Written by the hub itself or by Django, and changed by nobody.
NO_CLIENT = {
    *(
        f"tools_app.{verb}_{model}"
        for verb in ALL
        for model in (
            "admission",
            "auditcheckpoint",
            "auditkey",
            "auditseal",
            "budgetuse",
            "calltext",
            "chore",
            "errorhour",
            "errornote",
            "idempotencykey",
            "keyconnection",
            "keytoolset",
            "managedrecord",
            "pendingcount",
            "pendingtext",
            "revision",
            "storedanswer",
            "toolcheck",
        )
    ),
    *(f"tools_app.{verb}_tooltag" for verb in ALL),
    *(
        f"tools_app.{verb}_{model}"
        for verb in ("add", "change", "delete")
        for model in (
            "agent",
            "auditentry",
            "call",
            "callhour",
            "errorlog",
            "process",
            "tag",
            "sourcestatus",
            "disksample",
        )
    ),
    *(
        f"tools_app.{verb}_{model}"
        for verb in ALL
        for model in ("answerfinding", "browsersession", "passwordlink", "signin", "sourcedocument", "upstreamtoken")
    ),
    *("tools_app.add_alert", "tools_app.delete_alert"),
    *(f"tools_app.{verb}_alertdelivery" for verb in ("add", "change", "delete")),
    *("tools_app.add_definition", "tools_app.delete_definition"),
    *("tools_app.add_approval", "tools_app.delete_approval"),
    *(f"tools_app.{verb}_standingapproval" for verb in ("add", "change", "delete")),
    *("tools_app.add_errorgroup", "tools_app.delete_errorgroup"),
    *("tools_app.add_stop", "tools_app.delete_stop"),
    *("tools_app.add_toolrecord", "tools_app.delete_toolrecord"),
    "tools_app.delete_apikey",
    *(f"auth.{verb}_permission" for verb in ALL),
    *(f"admin.{verb}_logentry" for verb in ALL),
    *(f"contenttypes.{verb}_contenttype" for verb in ALL),
    *(f"sessions.{verb}_session" for verb in ALL),
    *(
        f"{app}.{verb}_{model}"
        for verb in ALL
        for app, model in (
            ("account", "emailaddress"),
            ("account", "emailconfirmation"),
            ("socialaccount", "socialaccount"),
            ("socialaccount", "socialapp"),
            ("socialaccount", "socialtoken"),
            ("mfa", "authenticator"),
        )
    ),
    *(
        f"axes.{verb}_{model}"
        for verb in ALL
        for model in ("accessattempt", "accessattemptexpiration", "accessfailurelog", "accesslog")
    ),
}


# What each role may beyond the one before. A change of these sets is a decision, whatever they are derived from.
VIEWS: Final = (
    *(
        "agent",
        "alert",
        "approval",
        "auditentry",
        "call",
        "callhour",
        "definition",
        "disksample",
        "errorgroup",
        "errorlog",
    ),
    *("process", "source", "sourcestatus", "standingapproval", "stop", "tag", "toolrecord"),
)
OPERATES: Final = ("alert", "approval", "definition", "errorgroup", "source", "stop", "toolrecord")
PINNED: Final = {
    actions.VIEWER: {f"tools_app.view_{model}" for model in VIEWS},
    actions.OPERATOR: {
        *(f"tools_app.change_{model}" for model in OPERATES),
        *("tools_app.add_savedview", "tools_app.view_connection"),
    },
    actions.ADMIN: {
        *(f"tools_app.{verb}_apikey" for verb in ("add", "change", "view")),
        *(f"tools_app.{verb}_{model}" for verb in ALL for model in ("alertrule", "toolset")),
        *(f"tools_app.{verb}_connection" for verb in ("add", "change", "delete")),
        "tools_app.delete_savedview",
        *("tools_app.add_source", "tools_app.view_alertdelivery", "tools_app.delete_source", "tools_app.view_payload"),
        *(f"auth.{verb}_{model}" for verb in ALL for model in ("group", "user")),
    },
}


def of_group(role: str) -> set[str]:
    pairs = Group.objects.get(name=role).permissions.values_list("content_type__app_label", "codename")
    return {f"{label}.{codename}" for label, codename in pairs}


def user(role: str) -> User:
    made = User.objects.create_user(f"a-{role}")
    made.groups.add(Group.objects.get(name=role))
    return made


def test_every_permission_is_decided() -> None:
    pairs = Permission.objects.values_list("content_type__app_label", "codename")
    there = {f"{label}.{codename}" for label, codename in pairs}
    decided = roles.permissions_of(actions.ADMIN) | NO_CLIENT
    assert there - decided == set(), "decide who may: tools_app/access/actions.py, or NO_CLIENT here"
    assert decided - there == set(), "these are gone"
    assert roles.permissions_of(actions.ADMIN) & NO_CLIENT == set()


def test_each_role_has_exactly_the_pinned_permissions() -> None:
    permissions: set[str] = set()
    for role, additional_permissions in PINNED.items():
        permissions |= additional_permissions
        assert roles.permissions_of(role) == permissions


@pytest.mark.parametrize("role", [actions.VIEWER, actions.OPERATOR, actions.ADMIN])
def test_each_role_is_a_group_with_its_permissions(role: str) -> None:
    assert of_group(role) == roles.permissions_of(role)


def test_each_role_includes_the_permissions_of_the_one_before() -> None:
    viewer, operator, admin = (roles.permissions_of(role) for role in actions.ROLES)
    assert viewer < operator < admin
    assert all(name.partition(".")[2].startswith("view_") for name in viewer), "who views changes nothing"
    assert "tools_app.view_payload" not in operator
    with pytest.raises(ValueError, match="not in tuple"):
        roles.permissions_of("janitor")


@pytest.mark.parametrize(
    ("role", "scopes"),
    [
        (actions.VIEWER, {"tools:list", "tools:read", "metrics:read"}),
        (actions.OPERATOR, {"tools:list", "tools:read", "tools:execute", "tools:manage", "metrics:read"}),
        (actions.ADMIN, {"tools:list", "tools:read", "tools:execute", "tools:manage", "metrics:read", "admin:*"}),
    ],
)
def test_the_scopes_of_a_person_follow_from_the_role(role: str, scopes: set[str]) -> None:
    assert access.caller_of_user(user(role)).scopes == scopes


def test_a_user_without_a_role_has_no_permission_and_a_superuser_has_all() -> None:
    assert access.caller_of_user(User.objects.create_user("nobody")).scopes == frozenset()
    assert access.caller_of_user(User.objects.create_superuser("root")).may("admin:*")


def test_migrate_takes_back_what_was_given_to_a_role_and_leaves_what_is_not_the_hubs() -> None:
    viewer, own = Group.objects.get(name=actions.VIEWER), Group.objects.create(name="night shift")
    extra, theirs = (
        Permission.objects.get(codename="change_toolrecord"),
        Permission.objects.get(codename="view_session"),
    )
    viewer.permissions.set([extra, theirs])
    own.permissions.set([extra])
    call_command("migrate", verbosity=0)
    assert of_group(actions.VIEWER) == roles.permissions_of(actions.VIEWER) | {"sessions.view_session"}
    assert of_group("night shift") == {"tools_app.change_toolrecord"}


def test_a_database_that_has_no_groups_yet_is_left_alone(django_assert_num_queries: Any) -> None:
    before = MigrationLoader(connection).project_state([("contenttypes", "0001_initial")]).apps
    with django_assert_num_queries(0):
        roles.grant("default", before)
    assert apps.get_model("auth", "Group").objects.count() == 3
