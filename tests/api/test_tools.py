"""Listing tools, and looking at one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import MakeKey
from tests.api.rest import TIMESTAMP, Rest, check_form, failure
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub, Programmable
from tools_app import governance, sources
from tools_app.catalog import catalog, listed
from tools_app.catalog.lean import lean
from tools_app.sdk.decorator import tool
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.pack import Pack

WRONG_QUERIES = [
    *((f"limit={value}", "/limit") for value in ("0", "101", "-1", "abc", "1.5", "", "1e1", "%2B1", "%201", "1_0")),
    *((f"page={value}", "/page") for value in ("0", "-1", "1000001", str(10**18), "9" * 5000, "%D9%A1", "null")),
    *((f"enabled={value}", "/enabled") for value in ("1", "True", "yes", "", "null", "TRUE")),
    ("category=", "/category"),
    ("tag=", "/tag"),
    ("tag=" + "x" * 65, "/tag"),
    ("pack=", "/pack"),
    ("q=", "/q"),
    ("q=" + "x" * 501, "/q"),
    ("page=1&page=2", "/page"),
    ("tag=a&tag=b", "/tag"),
    ("limits=3", "/limits"),
    ("Page=3", "/Page"),
    ("offset=3", "/offset"),
    ("enabled__in=1", "/enabled__in"),
    ("_connector=OR", "/_connector"),
    ("__class__=1", "/__class__"),
]


def make_tool(name: str, pack: Pack | None = None, **declared: Any) -> Any:
    async def run(path: str, depth: int = 1) -> dict[str, int]:
        """Do something."""
        return {"depth": depth}

    return (pack.tool if pack is not None else tool)(name=name, **declared)(run)


@pytest.fixture
def shelf(hub: Hub) -> None:
    """Six tools beside the two shipped ones, in categories and with tags."""
    for number in range(6):
        category, tags = ("even" if number % 2 == 0 else "odd"), ["all", f"t{number}"]
        hub.add(make_tool(f"shelf_{number}", category=category, tags=tags))
    governance.set_enabled(["shelf_0", "shelf_1"], False, actor=governance.trusted("test"))


def names(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [one["name"] for one in response.json()["tools"]]


def test_returns_a_tool_list(rest: Rest) -> None:
    response = rest.get("/v1/tools")

    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json"
    assert "tools" in response.json()


def test_lists_all_tools_by_name_with_the_first_page_by_default(rest: Rest, shelf: None) -> None:
    response = rest.get("/v1/tools")

    assert names(response) == ["calculate", "echo", "read_result", *(f"shelf_{number}" for number in range(6))]
    assert response.json()["pagination"] == {"page": 1, "limit": 50, "total": 9, "totalPages": 1}
    assert response.json()["listedTokens"] == listed.cost_of_list(catalog.current())


def test_an_item_has_what_the_document_asks_for_and_its_schema(rest: Rest) -> None:
    item = rest.get("/v1/tools").json()["tools"][1]

    assert TIMESTAMP.fullmatch(item.pop("registeredAt"))
    assert 50 < item.pop("tokens") < 300
    assert item == {
        "name": "echo",
        "title": "Echo",
        "description": "Echo back the message that was sent. Useful to see whether the hub answers.",
        "parameters": [
            {"name": "message", "type": "string", "description": "The text to send back", "required": True}
        ],
        "version": "1.0.0",
        "category": "utility",
        "tags": ["builtin", "test"],
        "author": "",
        "enabled": True,
        "available": True,
        "annotations": {
            "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False,
        },
        "inputSchema": {
            "type": "object",
            "properties": {"message": {"type": "string", "description": "The text to send back"}},
            "required": ["message"],
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("category=even", ["shelf_0", "shelf_2", "shelf_4"]),
        ("tag=t3", ["shelf_3"]),
        ("enabled=false", ["shelf_0", "shelf_1"]),
        ("enabled=true&category=odd", ["shelf_3", "shelf_5"]),
        ("category=even&tag=all&enabled=false", ["shelf_0"]),
        ("category=even&tag=t1", []),
        ("category=nothing", []),
        ("tag=%00", []),
        ("tag=%FF%FE", []),
        ("category=EVEN", []),
        ("pack=builtin", ["calculate", "echo", "read_result"]),
        ("pack=nothing", []),
        ("q=SHELF_5", ["shelf_5"]),
        ("q=message%20back", ["echo"]),
        ("q=something", [f"shelf_{number}" for number in range(6)]),
        ("q=something&tag=t2", ["shelf_2"]),
        ("q=%20", []),
        ("q=%25", []),
    ],
)
def test_filters_must_all_fit(rest: Rest, shelf: None, query: str, expected: list[str]) -> None:
    response = rest.get(f"/v1/tools?{query}")

    assert names(response) == expected
    assert response.json()["pagination"]["total"] == len(expected)


@pytest.mark.parametrize(
    ("query", "expected", "pages"),
    [
        ("page=1&limit=3", ["calculate", "echo", "read_result"], 3),
        ("page=3&limit=3", ["shelf_3", "shelf_4", "shelf_5"], 3),
        ("page=4&limit=3", [], 3),
        ("page=1000000&limit=100", [], 1),
        ("limit=1&category=odd&page=2", ["shelf_3"], 3),
        ("limit=100&category=nothing", [], 0),
    ],
)
def test_pages_are_cut_after_filtering(rest: Rest, shelf: None, query: str, expected: list[str], pages: int) -> None:
    response = rest.get(f"/v1/tools?{query}")

    assert names(response) == expected
    assert response.json()["pagination"]["totalPages"] == pages


def test_refuses_any_other_query(rest: Rest, subtests: pytest.Subtests) -> None:
    for query, path in WRONG_QUERIES:
        with subtests.test(query=query[:60]):
            told = failure(rest.get(f"/v1/tools?{query}"), 400, "VALIDATION_ERROR")
            assert told["error"] == "Validation failed"
            assert [problem["path"] for problem in told["details"]] == [path]


def test_an_address_that_takes_no_parameters_refuses_every_one(rest: Rest) -> None:
    for path in ("/v1/tools/echo", "/v1/tags", "/v1/categories", "/v1/calls/1"):
        told = failure(rest.get(f"{path}?verbose=1"), 400, "VALIDATION_ERROR")
        assert told["details"] == [{"path": "/verbose", "message": "Unknown parameter: verbose"}]


@pytest.mark.parametrize("path", ["/v1/tools", "/v1/tools?tag=all&limit=2", "/v1/tools/echo"])
def test_a_client_with_a_current_copy_gets_304(rest: Rest, shelf: None, path: str) -> None:
    first = rest.get(path)
    tag = first.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = rest.get(path, If_None_Match=known)
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
        assert again.headers["Cache-Control"] == "private, no-cache"
        assert again.headers["Vary"] == "Authorization, X-API-Key, Cookie"

    assert rest.get(path, If_None_Match='"other"').content == first.content


def test_the_tag_of_an_answer_changes_with_it(rest: Rest, shelf: None) -> None:
    before = rest.get("/v1/tools/shelf_5").headers["ETag"]
    governance.set_policy("shelf_5", {"timeout_ms": 700}, actor=governance.trusted("test"))

    changed = rest.get("/v1/tools/shelf_5", If_None_Match=before)

    assert changed.status_code == 200
    assert changed.headers["ETag"] != before


def test_tells_everything_that_is_wrong_with_a_query_and_repeats_no_value(rest: Rest) -> None:
    response = rest.get("/v1/tools?limit=hunter2&page=hunter2&enabled=hunter2&colour=hunter2")

    told = failure(response, 400, "VALIDATION_ERROR")
    assert {problem["path"]: (problem["message"], problem.get("expected")) for problem in told["details"]} == {
        "/limit": ("Invalid value for parameter limit: expected a whole number", "a whole number"),
        "/page": ("Invalid value for parameter page: expected a whole number", "a whole number"),
        "/enabled": ("Invalid value for parameter enabled: expected true or false", "true or false"),
        "/colour": ("Unknown parameter: colour", None),
    }
    assert b"hunter2" not in response.content


def test_refuses_more_parameters_than_django_reads(rest: Rest) -> None:
    failure(rest.get("/v1/tools?" + "&".join(f"p{n}=1" for n in range(2000))), 400, "VALIDATION_ERROR")


def test_shows_everything_about_a_tool(rest: Rest, hub: Hub) -> None:
    pack = Pack("disk", version="2.1.0", timeout=4)
    made = make_tool(
        "list_files",
        pack,
        title="List files",
        category="files",
        tags=("b", "a"),
        author="Alice",
        aliases=("dir",),
        dependencies=("echo",),
        hints=Hints(read_only=True, open_world=False),
        examples=[Example("The root", {"path": "/"}, {"depth": 1})],
    )
    hub.add(made)

    told = rest.get("/v1/tools/list_files").json()

    assert told["parameters"] == [
        {"name": "path", "type": "string", "description": "", "required": True},
        {"name": "depth", "type": "number", "description": "", "required": False, "default": 1},
    ]
    assert TIMESTAMP.fullmatch(told["registeredAt"])
    assert told["definitionHash"] == hub.entry("list_files").definition_hash
    assert told["inputSchema"] == made.input_schema
    assert told["outputSchema"] == made.output_schema
    shown = {key: told[key] for key in ("version", "enabled", "tags", "category", "author", "pack", "policy")}
    assert shown == {
        "version": "2.1.0", "enabled": True, "tags": ["a", "b"], "category": "files", "author": "Alice",
        "pack": "disk", "policy": {
            "timeoutMs": 4000, "retries": 0, "retryDelayMs": 1000, "rateLimit": {"max": 1000, "timeWindow": 60000},
            "cacheSeconds": 0, "answerTokens": 25_000,
            "origins": {
                "timeoutMs": "pack", "retries": "settings", "retryDelayMs": "settings", "rateLimit": "settings",
                "cacheSeconds": "settings", "answerTokens": "settings",
            },
        },
    }  # fmt: skip
    assert told["examples"] == [
        {"description": "The root", "parameters": {"path": "/"}, "expectedResult": {"depth": 1}}
    ]
    assert (told["aliases"], told["dependencies"]) == (["dir"], ["echo"])
    assert (told["available"], "unavailableReason" in told) == (True, False)


@pytest.mark.parametrize("name", ["list-files", "dir"])
def test_finds_a_tool_by_its_other_spelling_and_its_alias(rest: Rest, hub: Hub, name: str) -> None:
    hub.add(make_tool("list_files", aliases=("dir",)))

    assert rest.get(f"/v1/tools/{name}").json()["name"] == "list_files"


def test_says_who_set_the_timeout(rest: Rest, hub: Hub) -> None:
    hub.add(make_tool("own", timeout=2.5), make_tool("set"), make_tool("plain"))
    governance.set_policy("set", {"timeout_ms": 700}, actor=governance.trusted("test"))

    policies = {name: rest.get(f"/v1/tools/{name}").json()["policy"] for name in ("own", "set", "plain")}

    assert {name: (policy["timeoutMs"], policy["origins"]["timeoutMs"]) for name, policy in policies.items()} == {
        "own": (2500, "tool"),
        "set": (700, "operator"),
        "plain": (30_000, "settings"),
    }


def test_a_tool_that_is_switched_off_is_shown_with_the_reason(rest: Rest, switched_off: Programmable) -> None:
    detail = rest.get("/v1/tools/programmable").json()
    item = rest.get("/v1/tools?enabled=false").json()["tools"][0]

    for told in (detail, item):
        assert (told["enabled"], told["available"]) == (False, False)
        assert told["unavailableReason"] == "switched off by an operator"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nope", "nope"),
        ("Echo", "Echo"),
        ("echo%0A", "echo�"),
        ("%3Cscript%3E", "<script>"),
        ("a" * 500, "a" * 99 + "…"),
        ("..", ".."),
        ("%00", "�"),
    ],
)
def test_an_unknown_tool_is_not_found(rest: Rest, name: str, shown: str) -> None:
    told = failure(rest.get(f"/v1/tools/{name}"), 404, "TOOL_NOT_FOUND")

    assert told["error"] == f"Tool not found: {shown}"


def test_a_switch_shows_in_the_next_request(rest: Rest, shelf: None) -> None:
    assert "shelf_5" in names(rest.get("/v1/tools?enabled=true"))

    governance.set_enabled(["shelf_5"], False, actor=governance.trusted("test"))

    assert "shelf_5" not in names(rest.get("/v1/tools?enabled=true"))


def test_the_list_asks_the_database_for_nothing_but_the_revision(rest: Rest, statements: list[str]) -> None:
    rest.get("/v1/tools")
    statements.clear()

    rest.get("/v1/tools")
    rest.get("/v1/tools/echo")

    assert [sql for sql in statements if sql.startswith("SELECT") and "tools_app_revision" not in sql] == []


def test_lists_need_one_scope_and_details_another(rest: Rest, make_key: MakeKey) -> None:
    lists, reads = make_key("lists", scopes=["tools:list"]), make_key("reads", scopes=["tools:read"])

    assert rest.get("/v1/tools", key=lists).status_code == 200
    assert rest.get("/v1/tools/echo", key=reads).status_code == 200
    for path, key, scope in (("/v1/tools", reads, "tools:list"), ("/v1/tools/echo", lists, "tools:read")):
        told = failure(rest.get(path, key=key), 403, "AUTHORIZATION_ERROR")
        assert told["error"] == f"Permission denied: requires scope {scope}"
        assert told["context"] == {"requiredScope": scope}


def test_answers_are_what_the_schema_promises(rest: Rest, shelf: None) -> None:
    check_form("ToolPage", rest.get("/v1/tools").json())
    check_form("ToolDetail", rest.get("/v1/tools/echo").json())


@pytest.fixture
def switched_off(programmable: Programmable) -> Programmable:
    governance.set_enabled(["programmable"], False, actor=governance.trusted("test"))
    return programmable


def test_a_tool_that_this_process_has_not_loaded_is_shown_as_it_was_seen_last(rest: Rest, hub: Hub) -> None:
    declared = make_tool("far", examples=[Example("Once", {"path": "x"})], dependencies=["echo"], aliases=["away"])
    hub.add(declared, make_tool("near"))
    loaded = rest.get("/v1/tools/far").json()
    sources.current().code.loaded().remove("far")
    rebuild_catalog()

    told = rest.get("/v1/tools/far").json()

    assert (told["available"], told["unavailableReason"]) == (False, "this process does not have it")
    assert [parameter["name"] for parameter in told["parameters"]] == ["path", "depth"]
    for part in ("parameters", "inputSchema", "outputSchema", "annotations", "examples", "aliases", "dependencies"):
        assert told[part] == loaded[part], part
    (item,) = [one for one in rest.get("/v1/tools").json()["tools"] if one["name"] == "far"]
    assert item["inputSchema"] == lean(loaded["inputSchema"], outside=False)
