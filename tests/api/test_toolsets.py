"""Toolsets, made and changed over REST by administrators."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import Rest, check_form, failure
from tools_app import governance
from tools_app.models import AuditEntry, Toolset

WRONG = [
    ({}, "/name"),
    ({"name": "Upper"}, "/name"),
    ({"name": "a b"}, "/name"),
    ({"name": "a\n"}, "/name"),
    ({"name": "x" * 65}, "/name"),
    ({"name": "new", "names": "echo"}, "/names"),
    ({"name": "new", "names": [""]}, "/names/0"),
    ({"name": "new", "tags": ["x" * 65]}, "/tags/0"),
    ({"name": "new", "packs": None}, "/packs"),
    ({"name": "new", "readOnly": 1}, "/readOnly"),
    ({"name": "new", "description": "x" * 501}, "/description"),
    ({"name": "new", "tools": ["echo"]}, "/tools"),
]


@pytest.fixture
def root(rest: Rest, make_key: MakeKey) -> Rest:
    rest.key = make_key("root", scopes=["admin:*"])
    return rest


def change(rest: Rest, name: str, body: Any) -> Any:
    return rest.send("PATCH", f"/v1/toolsets/{name}", json.dumps(body))


def test_a_toolset_is_made_and_says_what_it_holds(root: Rest) -> None:
    response = root.post(
        "/v1/toolsets", {"name": "support", "names": ["echo"], "description": "For support", "reason": "they asked"}
    )
    made = response.json()

    check_form("ToolsetDetail", made)
    assert response.status_code == 201
    assert (made["tools"], made["names"], made["keys"], made["readOnly"]) == (["echo"], ["echo"], 0, False)
    assert root.get("/v1/toolsets/support").json() == made
    entry = AuditEntry.objects.get(action="toolset.create")
    assert (entry.subject, entry.actor, entry.reason) == ("toolset:support", "key:root", "they asked")


def test_a_change_counts_for_the_next_request_of_every_key(root: Rest, make_key: MakeKey) -> None:
    root.post("/v1/toolsets", {"name": "support", "names": ["echo"], "description": "stays"})
    bound = make_key("bound", toolsets=["support"])
    assert [one["name"] for one in root.get("/v1/tools", key=bound).json()["tools"]] == ["echo", "read_result"]

    changed = change(root, "support", {"names": [], "categories": ["utility"]}).json()

    assert (changed["tools"], changed["description"], changed["keys"]) == (
        ["calculate", "echo", "read_result"],
        "stays",
        1,
    )
    assert [one["name"] for one in root.get("/v1/tools", key=bound).json()["tools"]] == [
        "calculate",
        "echo",
        "read_result",
    ]


def test_a_toolset_that_no_key_has_can_be_deleted(root: Rest, make_key: MakeKey) -> None:
    root.post("/v1/toolsets", {"name": "used"})
    root.post("/v1/toolsets", {"name": "free"})
    make_key("bound", toolsets=["used"])

    told = failure(root.send("DELETE", "/v1/toolsets/used"), 409, "CONFLICT")
    gone = root.send("DELETE", "/v1/toolsets/free?reason=tidied%20up")

    assert told["error"] == "Toolset used cannot be deleted: it is in use by bound"
    assert (gone.status_code, gone.content, "Content-Type" in gone.headers) == (204, b"", False)
    assert list(Toolset.objects.values_list("name", flat=True)) == ["used"]
    assert AuditEntry.objects.get(action="toolset.delete").reason == "tidied up"


def test_lists_all_by_name(root: Rest) -> None:
    for name in ("b", "a", "c"):
        governance.create_toolset(name, actor=governance.trusted("test"))

    told = root.get("/v1/toolsets").json()

    check_form("Toolsets", told)
    assert ([one["name"] for one in told["toolsets"]], told["total"]) == (["a", "b", "c"], 3)


@pytest.mark.parametrize("name", ["none", "Upper", "%00", "x" * 500, "%F0%9F%98%80", "'--"])
def test_an_unknown_toolset_is_not_found(root: Rest, name: str) -> None:
    for response in (
        root.get(f"/v1/toolsets/{name}"),
        change(root, name, {"names": []}),
        root.send("DELETE", f"/v1/toolsets/{name}"),
    ):
        failure(response, 404, "NOT_FOUND")


def test_refuses_everything_else(root: Rest, subtests: pytest.Subtests) -> None:
    for body, path in WRONG:
        with subtests.test(body=str(body)[:60]):
            told = failure(root.post("/v1/toolsets", body), 400, "VALIDATION_ERROR")
            assert [problem["path"] for problem in told["details"]] == [path]
    assert not Toolset.objects.exists()


def test_a_name_is_given_once_and_stays(root: Rest) -> None:
    root.post("/v1/toolsets", {"name": "support"})

    failure(root.post("/v1/toolsets", {"name": "support"}), 409, "CONFLICT")
    told = failure(change(root, "support", {"name": "other"}), 400, "VALIDATION_ERROR")
    assert told["details"] == [{"path": "/name", "message": "Unknown parameter: name"}]


def test_toolsets_are_for_administrators(rest: Rest, make_key: MakeKey) -> None:
    governance.create_toolset("support", actor=governance.trusted("test"))
    rest.key = make_key("ops", scopes=["tools:manage"])

    for response in (
        rest.get("/v1/toolsets"),
        rest.get("/v1/toolsets/support"),
        rest.post("/v1/toolsets", {"name": "mine"}),
        change(rest, "support", {"names": []}),
        rest.send("DELETE", "/v1/toolsets/support"),
    ):
        assert failure(response, 403, "AUTHORIZATION_ERROR")["context"] == {"requiredScope": "admin:*"}
    assert Toolset.objects.count() == 1


@pytest.mark.parametrize("number", [3, 30])
def test_a_list_takes_one_query(root: Rest, make_key: MakeKey, statements: list[str], number: int) -> None:
    for index in range(number):
        governance.create_toolset(f"set-{index}", actor=governance.trusted("test"))
    make_key("bound", toolsets=["set-0", "set-1"])
    root.get("/v1/toolsets")
    statements.clear()

    assert len(root.get("/v1/toolsets").json()["toolsets"]) == number

    assert len([sql for sql in statements if sql.startswith("SELECT") and "tools_app_revision" not in sql]) == 1
