"""Users: one role each, which nobody exceeds, and a hub that always has a superuser."""

from __future__ import annotations

import threading
from typing import Any, Final

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from tools_app import governance
from tools_app.governance import roles
from tools_app.models import AuditEntry
from tools_app.sdk.errors import AuthorizationError, ConflictError, ValidationError

pytestmark = pytest.mark.django_db

HUB: Final = governance.trusted("test")


def person(name: str, role: str) -> User:
    user = User.objects.create_user(name, password="a-long-and-strange-phrase")
    governance.set_role(user, role, actor=HUB)
    return User.objects.get(pk=user.pk)


def as_is(user: User) -> User:
    """Without the permissions that Django remembers."""
    return User.objects.get(pk=user.pk)


@pytest.mark.parametrize("role", governance.ALL_ROLES)
def test_a_role_sets_groups_staff_status_and_superuser_status(role: str) -> None:
    user = person("bob", role)
    assert governance.role_of(user) == role
    assert list(user.groups.values_list("name", flat=True)) == (
        [role] if role in ("viewer", "operator", "admin") else []
    )
    assert (user.is_staff, user.is_superuser) == (role != "", role == "superuser")


def test_the_audit_trail_has_the_role_before_and_after() -> None:
    bob = person("bob", "viewer")
    assert governance.set_role(bob, "operator", actor=HUB, reason="joins the on-call rota")
    assert not governance.set_role(as_is(bob), "operator", actor=HUB), "nothing has changed"
    first, second = AuditEntry.objects.filter(action="user.role").order_by("pk")
    assert first.changes == {"role": ["", "viewer"]}
    assert (second.subject, second.changes, second.reason) == (
        "user:bob",
        {"role": ["viewer", "operator"]},
        "joins the on-call rota",
    )


def test_users_with_permissions_of_their_own_keep_them_until_a_role_is_chosen() -> None:
    night, cooks = Group.objects.create(name="night shift"), Group.objects.create(name="cooks")
    night.permissions.add(Permission.objects.get(codename="change_stop"))
    cooks.permissions.add(Permission.objects.get(codename="view_session"))
    ann, ben, cid = (User.objects.create_user(name, is_staff=True) for name in ("ann", "ben", "cid"))
    ann.groups.add(night, cooks)
    ben.user_permissions.add(
        Permission.objects.get(codename="view_call"), Permission.objects.get(codename="view_session")
    )
    cid.groups.add(cooks, Group.objects.get(name="viewer"), Group.objects.get(name="operator"))
    dan = User.objects.create_user("dan")
    dan.groups.add(Group.objects.get(name="operator"))
    assert governance.roles_of([ann, ben, cid, dan]) == {
        ann.pk: "custom",
        ben.pk: "custom",
        cid.pk: "operator",
        dan.pk: "custom",  # Without staff status nobody can sign in.
    }
    for user in (ann, ben, dan):
        governance.set_role(user, "viewer", actor=HUB)
        assert governance.role_of(as_is(user)) == "viewer"
    assert set(ann.groups.values_list("name", flat=True)) == {"viewer", "cooks"}
    assert list(ben.user_permissions.values_list("codename", flat=True)) == ["view_session"]
    entry = AuditEntry.objects.get(action="user.role", subject="user:ann")
    assert entry.changes == {"role": ["custom", "viewer"], "groups": [["cooks", "night shift"], ["viewer"]]}


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValidationError, match="There is no role 'janitor'; there are: viewer, operator, admin"):
        governance.set_role(User.objects.create_user("bob"), "janitor", actor=HUB)


def test_an_admin_gives_roles_up_to_their_own_and_touches_no_superuser() -> None:
    ada, root = person("ada", "admin"), person("root", "superuser")
    person("other", "superuser")
    bob, actor = User.objects.create_user("bob"), governance.of_user(ada)
    for role in ("viewer", "operator", "admin", ""):
        assert governance.set_role(as_is(bob), role, actor=actor)
    for user, role in ((bob, "superuser"), (ada, "superuser"), (root, "viewer"), (root, "")):
        with pytest.raises(AuthorizationError, match="Permission denied"):
            governance.set_role(as_is(user), role, actor=actor)
    assert governance.role_of(as_is(root)) == "superuser"
    assert governance.set_role(as_is(ada), "superuser", actor=governance.of_user(root))


def test_who_may_only_change_users_gives_and_takes_no_more_than_they_have() -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="change_user"))
    bob, boss, actor = User.objects.create_user("bob"), person("boss", "admin"), governance.of_user(as_is(clerk))
    for user, role in ((bob, "viewer"), (clerk, "admin"), (boss, "")):
        with pytest.raises(AuthorizationError, match="permissions that you do not have"):
            governance.set_role(user, role, actor=actor)
    assert not AuditEntry.objects.exclude(subject="user:boss").exists()


def test_the_last_superuser_who_can_sign_in_stays_one() -> None:
    root = person("root", "superuser")
    away, invited = person("away", "superuser"), person("invited", "superuser")
    User.objects.filter(pk=away.pk).update(is_active=False)
    invited.set_unusable_password()
    invited.save()
    for actor in (HUB, governance.of_user(root)):
        with pytest.raises(ConflictError, match="root is the last superuser who can sign in"):
            governance.set_role(root, "admin", actor=actor)
    User.objects.filter(pk=away.pk).update(is_active=True)
    assert governance.set_role(as_is(root), "admin", actor=governance.of_user(as_is(root))), "one may step down"


@pytest.mark.django_db(transaction=True)
def test_two_superusers_who_demote_each_other_at_once_leave_one() -> None:
    roles.grant("default")  # The database is emptied before such a test.
    ann, ben = person("ann", "superuser"), person("ben", "superuser")
    results: list[Any] = []
    together = threading.Barrier(2)

    def demote(actor: User, user: User) -> None:
        try:
            together.wait(10)
            results.append(governance.set_role(user, "viewer", actor=governance.of_user(actor)))
        except (ConflictError, AuthorizationError) as error:
            results.append(type(error))
        finally:
            connection.close()

    threads = [threading.Thread(target=demote, args=pair) for pair in ((ann, ben), (ben, ann))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(results) == 2
    assert results.count(True) == 1
    assert User.objects.filter(is_superuser=True).count() == 1


def test_sessions_end_when_a_user_may_do_less_and_not_when_more() -> None:
    bob, eve = person("bob", "viewer"), person("eve", "admin")
    browsers = {name: Client() for name in ("bob", "eve")}
    browsers["bob"].force_login(bob)
    browsers["eve"].force_login(eve)
    governance.set_role(as_is(bob), "operator", actor=HUB)
    assert browsers["bob"].get("/admin/").status_code == 200
    governance.set_role(as_is(bob), "viewer", actor=HUB)
    assert browsers["bob"].get("/admin/").status_code == 302, "the next request is refused"
    assert browsers["eve"].get("/admin/").status_code == 200
    assert Session.objects.count() == 1
