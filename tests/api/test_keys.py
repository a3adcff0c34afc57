"""API keys, made and revoked over REST by administrators."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tests.support.tools import Hub
from tools_app import governance
from tools_app.models import ApiKey, AuditEntry, Toolset
from tools_app.sdk.errors import ValidationError

WRONG = [
    ({}, "/name"),
    ({"name": ""}, "/name"),
    ({"name": None}, "/name"),
    ({"name": "x" * 101}, "/name"),
    ({"name": "new", "scopes": ["everything"]}, "/scopes/0"),
    ({"name": "new", "scopes": "admin:*"}, "/scopes"),
    ({"name": "new", "scopes": None}, "/scopes"),
    ({"name": "new", "toolsets": [1]}, "/toolsets/0"),
    ({"name": "new", "mayWrite": "yes"}, "/mayWrite"),
    ({"name": "new", "rateLimit": {"max": 1}}, "/rateLimit/timeWindow"),
    ({"name": "new", "expiresAt": "tomorrow"}, "/expiresAt"),
    ({"name": "new", "expiresAt": 1767225600}, "/expiresAt"),
    ({"name": "new", "expiresAt": "2026-01-01"}, "/expiresAt"),
    ({"name": "new", "hash": "x"}, "/hash"),
    ({"name": "new", "owner": 1}, "/owner"),
    ({"name": "new", "revokedAt": None}, "/revokedAt"),
]


@pytest.fixture
def root(rest: Rest, make_key: MakeKey) -> Rest:
    rest.key = make_key("root", scopes=["admin:*"])
    return rest


def test_a_new_key_is_shown_once_and_works(root: Rest) -> None:
    governance.create_toolset("maths", names=["calculate"], actor=governance.trusted("test"))
    later = datetime.now(UTC) + timedelta(days=1)

    response = root.post(
        "/v1/keys",
        {
            "name": "service",
            "scopes": ["tools:list"],
            "toolsets": ["maths"],
            "mayDestroy": False,
            "rateLimit": {"max": 10, "timeWindow": 1000},
            "expiresAt": later.isoformat(),
        },
    )
    made = response.json()

    check_form("NewKey", made)
    assert (response.status_code, response.headers["Cache-Control"]) == (201, "no-store")
    assert (made["name"], made["state"], made["scopes"], made["toolsets"]) == (
        "service", "works", ["tools:list"], ["maths"],
    )  # fmt: skip
    assert (made["mayWrite"], made["mayDestroy"], made["rateLimit"]) == (True, False, {"max": 10, "timeWindow": 1000})
    assert made["expiresAt"] == f"{later:%Y-%m-%dT%H:%M:%S}.{later.microsecond // 1000:03}Z"
    assert [one["name"] for one in root.get("/v1/tools", key=made["key"]).json()["tools"]] == [
        "calculate",
        "read_result",
    ]
    assert AuditEntry.objects.get(subject="key:service").actor == "key:root"
    shown = root.get(f"/v1/keys/{made['id']}")
    check_form("KeyItem", shown.json())
    assert made["key"].encode() not in shown.content + root.get("/v1/keys").content
    assert made["key"].startswith(f"thub_{made['prefix']}_")


def test_a_key_has_the_usual_scopes_by_default(root: Rest) -> None:
    made = root.post("/v1/keys", {"name": "plain"}).json()

    assert made["scopes"] == ["tools:execute", "tools:list", "tools:read"]
    assert (made["toolsets"], made["mayWrite"], made["mayDestroy"]) == ([], True, True)
    assert (made["rateLimit"], made["expiresAt"], made["lastUsedAt"], made["owner"]) == (None, None, None, None)


def test_a_revoked_key_is_refused_from_the_next_request(root: Rest) -> None:
    made = root.post("/v1/keys", {"name": "service"}).json()
    assert root.get("/v1/tools", key=made["key"]).status_code == 200

    revoked = root.post(f"/v1/keys/{made['id']}/revoke", {"reason": "lost"}).json()
    again = root.post(f"/v1/keys/{made['id']}/revoke", {})

    failure(root.get("/v1/tools", key=made["key"]), 401, "AUTHENTICATION_ERROR")
    assert (revoked["state"], again.json()) == ("revoked", revoked)
    entry = AuditEntry.objects.get(action="key.revoke")
    assert (entry.subject, entry.actor, entry.reason) == ("key:service", "key:root", "lost")


def test_lists_the_newest_first_page_by_page(root: Rest) -> None:
    for name in ("one", "two", "three"):
        governance.create_key(name, actor=governance.trusted("test"))

    first = root.get("/v1/keys?limit=3").json()
    second = root.get(f"/v1/keys?limit=3&cursor={first['nextCursor']}").json()

    check_form("KeyPage", first)
    assert [one["name"] for one in first["keys"] + second["keys"]] == ["three", "two", "one", "root", "alice"]
    assert second["nextCursor"] is None


@pytest.mark.parametrize(
    "key_id", ["0", "999999", "9" * 18, "9" * 19, "9" * 5000, "-1", "1e1", "%D9%A1", "%00", "1.0", "abc", "+1"]
)
def test_an_unknown_key_is_not_found(root: Rest, key_id: str) -> None:
    for response in (root.get(f"/v1/keys/{key_id}"), root.post(f"/v1/keys/{key_id}/revoke", {})):
        assert failure(response, 404, "NOT_FOUND")["error"] == "There is no such key"


def test_refuses_everything_else(root: Rest, subtests: pytest.Subtests) -> None:
    for body, path in WRONG:
        with subtests.test(body=str(body)[:60]):
            told = failure(root.post("/v1/keys", body), 400, "VALIDATION_ERROR")
            assert [problem["path"] for problem in told["details"]] == [path]
    assert not ApiKey.objects.filter(name="new").exists()


@pytest.mark.parametrize("body", [{"name": " "}, {"name": "new", "toolsets": ["none"]}])
def test_refuses_what_the_hub_does_not_know(root: Rest, body: Any) -> None:
    failure(root.post("/v1/keys", body), 400, "VALIDATION_ERROR")


def test_a_name_is_given_once(root: Rest) -> None:
    failure(root.post("/v1/keys", {"name": "root"}), 409, "CONFLICT")


def test_keys_are_for_administrators(rest: Rest, make_key: MakeKey) -> None:
    for key in (rest.key, make_key("ops", scopes=["tools:manage"])):
        for response in (
            rest.get("/v1/keys", key=key),
            rest.get("/v1/keys/1", key=key),
            rest.post("/v1/keys", {"name": "mine", "scopes": ["admin:*"]}, key=key),
            rest.post("/v1/keys/1/revoke", {}, key=key),
        ):
            assert failure(response, 403, "AUTHORIZATION_ERROR")["context"] == {"requiredScope": "admin:*"}
    assert not ApiKey.objects.filter(name="mine").exists()


@pytest.mark.parametrize("number", [3, 30])
def test_queries_do_not_grow_with_the_list(root: Rest, statements: list[str], number: int) -> None:
    governance.create_toolset("maths", names=["calculate"], actor=governance.trusted("test"))
    for index in range(number):
        governance.create_key(f"key {index}", toolsets=["maths"], actor=governance.trusted("test"))
    root.get("/v1/keys")
    statements.clear()

    assert len(root.get("/v1/keys").json()["keys"]) == number + 2

    assert len([sql for sql in statements if sql.startswith("SELECT") and "tools_app_revision" not in sql]) == 3


def test_a_key_is_rotated_and_both_work_for_a_while(root: Rest) -> None:
    before = root.post("/v1/keys", {"name": "service"}).json()
    rotated = root.post(f"/v1/keys/{before['id']}/rotate", {"graceHours": 24, "reason": "spring"})
    after = rotated.json()
    check_form("NewKey", after)
    assert rotated.status_code == 200
    assert rotated.headers["Cache-Control"] == "no-store"
    assert (after["id"], after["caller"], after["previousPrefix"]) == (before["id"], before["caller"], before["prefix"])
    assert after["prefix"] != before["prefix"]
    for secret in (before["key"], after["key"]):
        assert root.get("/v1/tools", key=secret).status_code == 200
    again = root.post(f"/v1/keys/{before['id']}/rotate", {}).json()
    assert again["previousPrefix"] is None
    assert [root.get("/v1/tools", key=one["key"]).status_code for one in (before, after, again)] == [401, 401, 200]
    entry = AuditEntry.objects.filter(action="key.rotate").last()
    assert entry is not None
    assert (entry.reason, entry.changes["prefix"]) == ("spring", [before["prefix"], after["prefix"]])


def test_the_key_before_is_refused_when_its_time_of_grace_is_over(root: Rest) -> None:
    before = root.post("/v1/keys", {"name": "service"}).json()
    root.post(f"/v1/keys/{before['id']}/rotate", {"graceHours": 1})
    assert root.get("/v1/tools", key=before["key"]).status_code == 200
    ApiKey.objects.update(previous_until=datetime.now(UTC) - timedelta(seconds=1))
    assert root.get("/v1/tools", key=before["key"]).status_code == 401
    assert root.get(f"/v1/keys/{before['id']}").json()["previousPrefix"] is None


def test_revoking_ends_a_key_and_the_one_before_it(root: Rest) -> None:
    before = root.post("/v1/keys", {"name": "service"}).json()
    after = root.post(f"/v1/keys/{before['id']}/rotate", {"graceHours": 24}).json()
    root.post(f"/v1/keys/{before['id']}/revoke", {})
    assert [root.get("/v1/tools", key=one["key"]).status_code for one in (before, after)] == [401, 401]
    assert failure(root.post(f"/v1/keys/{before['id']}/rotate", {}), 409, "CONFLICT")["nextStep"]


@pytest.mark.parametrize("hours", [-1, 169, 1.5, "1", None, True])
def test_a_time_of_grace_has_its_limits(root: Rest, hours: object) -> None:
    made = root.post("/v1/keys", {"name": "service"}).json()
    refused = failure(root.post(f"/v1/keys/{made['id']}/rotate", {"graceHours": hours}), 400, "VALIDATION_ERROR")
    assert refused["details"][0]["path"] == "/graceHours"
    assert ApiKey.objects.get(pk=made["id"]).rotated_at is None


LIMITS: dict[str, dict[str, Any]] = {
    "toolsets": {"toolsets": ["wiki"]},
    "writes": {"may_write": False},
    "destroys": {"may_destroy": False},
    "asks": {"asks": "destroys"},
    "rate": {"rate": (10, 60)},
}
# What goes beyond each, and what does not.
BEYOND: dict[str, list[dict[str, Any]]] = {
    "toolsets": [{}, {"toolsets": ["wiki", "mail"]}, {"toolsets": ["wiki"], "connections": ["environment", "other"]}],
    "writes": [{}, {"mayDestroy": False}],
    "destroys": [{}],
    "asks": [{}],
    "rate": [{}, {"rateLimit": {"max": 11, "timeWindow": 66_000}}, {"rateLimit": {"max": 10, "timeWindow": 30_000}}],
}
WITHIN: dict[str, dict[str, Any]] = {
    "toolsets": {"toolsets": ["wiki"]},
    "writes": {"mayWrite": False},
    "destroys": {"mayDestroy": False},
    "asks": {"asks": "writes"},
    "rate": {"rateLimit": {"max": 5, "timeWindow": 60_000}},
}


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limited_key_makes_and_rotates_no_key_that_could_do_more(rest: Rest, limit: str) -> None:
    for name in ("wiki", "mail"):
        governance.create_toolset(name, actor=governance.trusted("test"), names=["echo"])
    limited, secret = governance.create_key(
        "limited", actor=governance.trusted("test"), scopes=["admin:*"], **LIMITS[limit]
    )
    whole, _ = governance.create_key("whole", actor=governance.trusted("test"))
    for number, given in enumerate(BEYOND[limit]):
        refused = rest.post("/v1/keys", {"name": f"wider-{number}", **given}, key=secret)
        assert "exceed the limits of yours" in failure(refused, 403, "AUTHORIZATION_ERROR")["error"]
    refused = rest.post(f"/v1/keys/{whole.pk}/rotate", {}, key=secret)
    failure(refused, 403, "AUTHORIZATION_ERROR")
    assert ApiKey.objects.get(pk=whole.pk).rotated_at is None
    assert rest.post("/v1/keys", {"name": "narrower", **WITHIN[limit]}, key=secret).status_code == 201
    assert rest.post(f"/v1/keys/{limited.pk}/rotate", {}, key=secret).status_code == 200


def test_a_key_that_nothing_limits_hands_on_any_connection(rest: Rest, hub: Hub) -> None:
    secret = governance.create_key("administrator", actor=governance.trusted("test"), scopes=["admin:*"])[1]
    made = rest.post("/v1/keys", {"name": "none", "connections": []}, key=secret)
    assert made.status_code == 201
    refused = rest.post("/v1/keys", {"name": "some", "connections": ["missing"]}, key=secret)
    assert "There is no connection" in failure(refused, 400, "VALIDATION_ERROR")["error"]


def test_a_key_does_not_change_the_toolset_that_limits_it(rest: Rest, hub: Hub) -> None:
    governance.create_toolset("wiki", actor=governance.trusted("test"), names=["echo"])
    secret = governance.create_key("limited", actor=governance.trusted("test"), scopes=["admin:*"], toolsets=["wiki"])[
        1
    ]
    failure(rest.send("PATCH", "/v1/toolsets/wiki", json.dumps({"names": []}), key=secret), 403, "AUTHORIZATION_ERROR")
    assert Toolset.objects.get().names == ["echo"]


# ---- changing


def patched(root: Rest, key_id: str, key: str | None = None, **body: Any) -> Any:
    return root.send("PATCH", f"/v1/keys/{key_id}", json.dumps(body), key=key or root.key)


def test_every_part_of_a_key_is_changed_for_its_next_request(root: Rest) -> None:
    governance.create_toolset("maths", names=["calculate"], actor=governance.trusted("test"))
    made = root.post("/v1/keys", {"name": "service"}).json()
    later = datetime.now(UTC) + timedelta(days=30)
    assert len(root.get("/v1/tools", key=made["key"]).json()["tools"]) > 2
    changed = patched(
        root,
        made["id"],
        scopes=["tools:list"],
        toolsets=["maths"],
        connections=[],
        mayWrite=False,
        asks="writes",
        rateLimit={"max": 50, "timeWindow": 60_000},
        addresses=["127.0.0.0/8", "::1"],
        expiresAt=later.isoformat(),
        reason="narrower",
    )
    check_form("KeyItem", changed.json())
    shown = changed.json()
    assert (shown["scopes"], shown["toolsets"], shown["connections"]) == (["tools:list"], ["maths"], [])
    assert (shown["mayWrite"], shown["mayDestroy"], shown["asks"]) == (False, False, "writes")
    assert (shown["rateLimit"], shown["addresses"]) == ({"max": 50, "timeWindow": 60_000}, ["127.0.0.0/8", "::1"])
    assert shown["expiresAt"].startswith(f"{later:%Y-%m-%dT%H:%M}")
    listed = root.get("/v1/tools", key=made["key"])
    assert {tool["name"] for tool in listed.json()["tools"]} == {"calculate", "read_result"}
    assert listed.headers["X-RateLimit-Limit"] == "50"
    failure(root.call("calculate", {"expression": "1"}, key=made["key"]), 403, "AUTHORIZATION_ERROR")
    entry = AuditEntry.objects.get(action="key.change")
    assert (entry.subject, entry.reason, entry.actor) == ("key:service", "narrower", "key:root")
    assert entry.changes["toolsets"] == [None, ["maths"]]
    assert entry.changes["may_destroy"] == [True, False]
    assert entry.changes["rate"] == [None, [50, 60]]
    assert entry.changes["addresses"] == [[], ["127.0.0.0/8", "::1"]]
    assert entry.changes["expires_at"][0] is None
    assert "owner" not in entry.changes


def test_what_a_change_does_not_name_stays(root: Rest) -> None:
    governance.create_toolset("maths", names=["calculate"], actor=governance.trusted("test"))
    made = root.post("/v1/keys", {"name": "service", "toolsets": ["maths"], "mayDestroy": False}).json()
    before = root.get(f"/v1/keys/{made['id']}").json()
    assert patched(root, made["id"], asks="destroys").json() == {**before, "asks": "destroys"}
    assert patched(root, made["id"], asks="destroys").status_code == 200
    assert AuditEntry.objects.filter(action="key.change").count() == 1


def test_all_tools_are_given_by_null_and_not_by_an_empty_list(root: Rest) -> None:
    governance.create_toolset("maths", names=["calculate"], actor=governance.trusted("test"))
    made = root.post("/v1/keys", {"name": "service", "toolsets": ["maths"]}).json()
    failure(patched(root, made["id"], toolsets=[]), 400, "VALIDATION_ERROR")
    assert root.get(f"/v1/keys/{made['id']}").json()["toolsets"] == ["maths"]
    with pytest.raises(ValidationError, match="at least one toolset"):
        governance.change_key(ApiKey.objects.get(pk=made["id"]), toolsets=[], actor=governance.trusted("test"))
    assert patched(root, made["id"], toolsets=None).json()["toolsets"] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"reason": "nothing else"},
        {"toolsets": ["missing"]},
        {"connections": ["missing"]},
        {"scopes": ["everything"]},
        {"mayWrite": False, "mayDestroy": True},
        {"addresses": ["10.0.0.5/8"]},
        {"addresses": ["everywhere"]},
        {"addresses": ["10.0.0.1"] * 51},
        {"expiresAt": "2001-01-01T00:00:00Z"},
        {"rateLimit": {"max": 0, "timeWindow": 1000}},
        {"owner": "clara"},
        {"name": "other"},
    ],
)
def test_a_wrong_change_changes_nothing(root: Rest, wrong: dict[str, Any]) -> None:
    made = root.post("/v1/keys", {"name": "service"}).json()
    before = ApiKey.objects.values().get(pk=made["id"])
    failure(patched(root, made["id"], **wrong), 400, "VALIDATION_ERROR")
    assert ApiKey.objects.values().get(pk=made["id"]) == {**before, "last_used_at": None}
    assert not AuditEntry.objects.filter(action="key.change").exists()


def test_no_key_changes_itself(root: Rest) -> None:
    own = ApiKey.objects.get(name="root")
    refused = patched(root, str(own.pk), connections=[])
    assert "a key cannot change itself" in failure(refused, 403, "AUTHORIZATION_ERROR")["error"]


@pytest.mark.parametrize("limit", [*LIMITS, "addresses"])
def test_a_limited_key_changes_no_key_that_could_do_more(rest: Rest, limit: str) -> None:
    for name in ("wiki", "mail"):
        governance.create_toolset(name, actor=governance.trusted("test"), names=["echo"])
    given: dict[str, Any] = {**LIMITS, "addresses": {"addresses": ["127.0.0.0/8"]}}[limit]
    test = governance.trusted("test")
    secret = governance.create_key("limited", actor=test, scopes=["admin:*"], **given)[1]
    whole, equal = (governance.create_key(name, actor=test, **more)[0] for name, more in (("a", {}), ("b", given)))
    wider: dict[str, dict[str, Any]] = {
        "toolsets": {"toolsets": None},
        "writes": {"mayWrite": True},
        "destroys": {"mayDestroy": True},
        "asks": {"asks": "none"},
        "rate": {"rateLimit": None},
        "addresses": {"addresses": ["126.0.0.0/7"]},
    }
    for key, body in ((whole, {"scopes": ["tools:list"]}), (equal, wider[limit])):
        refused = patched(rest, str(key.pk), key=secret, **body)
        assert "exceed the limits of yours" in failure(refused, 403, "AUTHORIZATION_ERROR")["error"]
    assert patched(rest, str(equal.pk), key=secret, scopes=["tools:list"]).status_code == 200


# ---- allowed addresses


def test_a_key_is_refused_from_other_addresses_and_the_operator_sees_from_which(root: Rest) -> None:
    made = root.post("/v1/keys", {"name": "service", "addresses": ["10.0.0.0/8"]}).json()
    unknown = failure(root.get("/v1/tools", key=made["key"][:-1] + "0"), 401, "AUTHENTICATION_ERROR")
    told = failure(root.get("/v1/tools", key=made["key"]), 401, "AUTHENTICATION_ERROR")
    assert told["error"] == unknown["error"]
    assert "10.0.0.0" not in str(told)
    assert patched(root, made["id"], addresses=["127.0.0.1"]).status_code == 200
    assert root.get("/v1/tools", key=made["key"]).status_code == 200
