"""Documents that are easy to get wrong (npm, @readme/oas-examples): each operation is a tool that clients accept, or
has a reason; and every style of parameters, in a request that a server got."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import MODULES
from tests.real.document import Documented
from tests.support.census import Census
from tests.support.faultd import Faultd, Seen
from tools_app.sources.openapi import DocumentError, read
from tools_app.sources.openapi.operations import METHODS

pytestmark = [pytest.mark.mcp, pytest.mark.usefixtures("installed")]

EXAMPLES = MODULES / "@readme" / "oas-examples"
STYLES = EXAMPLES / "3.1" / "json" / "parameters-style.json"


@pytest.fixture(scope="module")
def installed() -> None:
    if not EXAMPLES.is_dir():
        missing = "not run: `make setup-node` fetches what this needs"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)


def examples(version: str) -> list[Path]:
    return sorted(path for path in (EXAMPLES / version).rglob("*") if path.suffix in (".json", ".yaml"))


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_edge_cases(version: str) -> None:
    census, twins = Census(), dict[tuple[str, str], str]()
    for path in examples(version):
        census.add(path)
        if path.parent.name in ("json", "yaml"):
            # The same operation in JSON and in YAML. Some documents have more of them in one of both.
            for found in read(path.read_bytes()).operations:
                assert found.definition == twins.setdefault((path.stem, found.key), found.definition)
    assert census.problems == []
    assert census.counts["documents"] > 20
    assert set(census.unsupported) <= {
        "the … has the style matrix, which is not supported",
        "the … has the style label, which is not supported",
    }


def test_swagger_2_is_refused_with_a_converter() -> None:
    paths = examples("2.0")
    assert len(paths) > 10
    for path in paths:
        with pytest.raises(DocumentError) as caught:
            read(path.read_bytes())
        assert "Swagger 2.0" in caught.value.message
        assert "swagger2openapi" in caught.value.next_step


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_every_operation_of_the_edge_cases_is_reported(version: str) -> None:
    number = 0
    for path in examples(version):
        if path.suffix == ".json":
            document = read(path.read_bytes())
            reported = [found.key for found in document.operations] + [key for key, _ in document.unsupported]
            paths = json.loads(path.read_bytes()).get("paths", {})
            items = {name: paths[_path_of(item["$ref"])] if "$ref" in item else item for name, item in paths.items()}
            declared = [
                f"{method.upper()} {name}" for name, item in items.items() for method in METHODS if method in item
            ]
            assert sorted(reported) == sorted(declared), path.name
            number += len(declared)
    assert number > 100


def _path_of(reference: str) -> str:
    return reference.removeprefix("#/paths/").replace("~1", "/")


# ---- styles

# Values with characters that the styles use themselves.
TEXT, LIST, OBJECT = "a b/c", ["blue", "b,c", "d|e&f"], {"name": "R=1", "description": "50%"}
PLAIN = {"primitive": "blue", "array": ["blue", "black"], "object": {"name": "R", "description": "100"}}
# Operation → path and query: "Style Examples" of OpenAPI 3.1.1, and the expansions of RFC 6570 that it names.
TARGETS = {
    "GET /anything/path/{primitive}/{array}/{object}": (
        "/anything/path/a%20b%2Fc/blue,b%2Cc,d%7Ce%26f/name,R%3D1,description,50%25"
    ),
    "GET /anything/path/simple/{primitive}/{array}/{object}": (
        "/anything/path/simple/a%20b%2Fc/blue,b%2Cc,d%7Ce%26f/name,R%3D1,description,50%25"
    ),
    "POST /anything/path/simple/{primitive}/{array}/{object}": (
        "/anything/path/simple/a%20b%2Fc/blue,b%2Cc,d%7Ce%26f/name=R%3D1,description=50%25"
    ),
    # Without a style it is `form`, exploded.
    "GET /anything/query": (
        "/anything/query?primitive=a%20b%2Fc&array=blue&array=b%2Cc&array=d%7Ce%26f&name=R%3D1&description=50%25"
    ),
    "GET /anything/query/form": (
        "/anything/query/form?primitive=a%20b%2Fc&array=blue,b%2Cc,d%7Ce%26f&object=name,R%3D1,description,50%25"
    ),
    "POST /anything/query/form": (
        "/anything/query/form?primitive=a%20b%2Fc&array=blue&array=b%2Cc&array=d%7Ce%26f&name=R%3D1&description=50%25"
    ),
    "GET /anything/query/spaceDelimited": (
        "/anything/query/spaceDelimited?array=blue%20b%2Cc%20d%7Ce%26f&object=name%20R%3D1%20description%2050%25"
    ),
    "GET /anything/query/pipeDelimited": (
        "/anything/query/pipeDelimited?array=blue%7Cb%2Cc%7Cd%7Ce%26f&object=name%7CR%3D1%7Cdescription%7C50%25"
    ),
    "GET /anything/query/deepObject": (
        "/anything/query/deepObject?object%5Bname%5D=R%3D1&object%5Bdescription%5D=50%25"
    ),
}
NOT_EXPLODED = {"primitive": "blue", "array": "blue,black", "object": "name,R,description,100"}
# Operation → headers. A header is not percent-encoded.
HEADERS = {
    "GET /anything/headers": NOT_EXPLODED,
    "GET /anything/headers/simple": NOT_EXPLODED,
    "POST /anything/headers/simple": {**NOT_EXPLODED, "object": "name=R,description=100"},
}


class Styles:
    """The service of the document."""

    def __init__(self, server: Faultd) -> None:
        self._server = server
        self._service = Documented("styles", f"{server.url}/ok", STYLES.read_bytes())
        self._names = {spec.runtime["original"]: name for name, spec in self._service.specs.items()}

    def request(self, key: str, values: dict[str, Any]) -> Seen:
        """What the service gets: the parameters that the operation declares, and nothing else."""
        self._server.requests.clear()
        name = self._names[key]
        declared = self._service.specs[name].body["inputSchema"]["properties"]
        self._service.call({}, name, **{argument: values[argument] for argument in declared})
        (seen,) = self._server.requests
        return seen


@pytest.fixture(scope="module")
def styles(installed: None) -> Iterator[Styles]:
    with Faultd() as server:
        yield Styles(server)


@pytest.mark.parametrize("key", TARGETS)
def test_a_style_of_path_and_query_is_sent_as_the_standard_says(styles: Styles, key: str) -> None:
    seen = styles.request(key, {"primitive": TEXT, "array": LIST, "object": OBJECT})
    assert (seen.method, seen.target) == (key.partition(" ")[0], f"/ok{TARGETS[key]}")


@pytest.mark.parametrize("key", HEADERS)
def test_a_style_of_headers_is_sent_as_the_standard_says(styles: Styles, key: str) -> None:
    seen = styles.request(key, PLAIN)
    assert {name: seen.headers[name] for name in HEADERS[key]} == HEADERS[key]


def test_every_style_is_sent_or_has_a_reason() -> None:
    document = read(STYLES.read_bytes())
    cookies = {found.key: found.problems for found in document.operations if found.path.startswith("/cookies")}
    assert len(cookies) == 3
    for problems in cookies.values():
        for name in ("primitive", "array", "object"):
            assert (
                f"The optional parameter {name} is left out: it is sent as a cookie, which is not supported."
                in problems
            )
    unsupported = dict(document.unsupported)
    for style in ("matrix", "label"):
        for method in ("GET", "POST"):
            reason = unsupported.pop(f"{method} /anything/path/{style}/{{primitive}}/{{array}}/{{object}}")
            assert reason == f"the parameter primitive has the style {style}, which is not supported"
    assert unsupported == {}
    with_parameters = {
        found.key for found in document.operations if json.loads(found.definition)["_operation"].get("parameters")
    }
    assert with_parameters == TARGETS.keys() | HEADERS.keys()
