"""Parameters, byte for byte as the tables of OpenAPI (3.1.1, "Style Examples") and RFC 6570 have them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.upstream.openapi.conftest import Service, in_header, in_path, query
from tools_app.sdk.errors import ConfigurationError, InvalidArgumentsError, ToolError
from tools_app.sdk.operation import Operation, Parameter

pytestmark = pytest.mark.anyio

LIST = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}


@pytest.mark.parametrize(
    ("parameter", "value", "target"),
    [
        # The tables of the standard.
        (in_path(), "blue", "/blue"),
        (in_path(), LIST, "/blue,black,brown"),
        (in_path(), OBJECT, "/R,100,G,200,B,150"),
        (in_path(explode=True), "blue", "/blue"),
        (in_path(explode=True), LIST, "/blue,black,brown"),
        (in_path(explode=True), OBJECT, "/R=100,G=200,B=150"),
        (query(), "", "?color="),
        (query(), "blue", "?color=blue"),
        (query(), LIST, "?color=blue,black,brown"),
        (query(), OBJECT, "?color=R,100,G,200,B,150"),
        (query(explode=True), "", "?color="),
        (query(explode=True), "blue", "?color=blue"),
        (query(explode=True), LIST, "?color=blue&color=black&color=brown"),
        (query(explode=True), OBJECT, "?R=100&G=200&B=150"),
        (query("spaceDelimited"), LIST, "?color=blue%20black%20brown"),
        (query("spaceDelimited"), OBJECT, "?color=R%20100%20G%20200%20B%20150"),
        (query("spaceDelimited", explode=True), LIST, "?color=blue&color=black&color=brown"),
        (query("pipeDelimited"), LIST, "?color=blue%7Cblack%7Cbrown"),
        (query("pipeDelimited"), OBJECT, "?color=R%7C100%7CG%7C200%7CB%7C150"),
        (query("pipeDelimited", explode=True), LIST, "?color=blue&color=black&color=brown"),
        (query("deepObject", explode=True), OBJECT, "?color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        # RFC 6570, sections 3.2.2 and 3.2.8, with its values.
        (in_path(name="var"), "value", "/value"),
        (in_path(name="hello"), "Hello World!", "/Hello%20World%21"),
        (in_path(name="half"), "50%", "/50%25"),
        (query(name="x"), "1024", "?x=1024"),
        (query(name="list"), ["red", "green", "blue"], "?list=red,green,blue"),
        (query(name="list", explode=True), ["red", "green", "blue"], "?list=red&list=green&list=blue"),
        (query(name="keys"), {"semi": ";", "dot": ".", "comma": ","}, "?keys=semi,%3B,dot,.,comma,%2C"),
        (query(name="keys", explode=True), {"semi": ";", "dot": ".", "comma": ","}, "?semi=%3B&dot=.&comma=%2C"),
        (in_path(name="keys"), {"semi": ";", "dot": ".", "comma": ","}, "/semi,%3B,dot,.,comma,%2C"),
        (in_path(name="keys", explode=True), {"semi": ";", "dot": ".", "comma": ","}, "/semi=%3B,dot=.,comma=%2C"),
        # Every type, in every place.
        (query(), 0, "?color=0"),
        (query(), -1.5, "?color=-1.5"),
        (query(), 1e30, "?color=1e%2B30"),
        (query(), 2**63, "?color=9223372036854775808"),
        (query(), False, "?color=false"),
        (query(), True, "?color=true"),
        (query(), None, "?color=null"),
        (query(), "null", "?color=null"),
        (query(), [0, False, "", None], "?color=0,false,,null"),
        (query(explode=True), [0, False, "", None], "?color=0&color=false&color=&color=null"),
        (query(explode=True), {"a": 0, "b": False, "c": "", "d": None}, "?a=0&b=false&c=&d=null"),
        (query("deepObject", explode=True), {"a": 0, "b": None}, "?color%5Ba%5D=0&color%5Bb%5D=null"),
        (in_path(), 0, "/0"),
        (in_path(), False, "/false"),
        (in_path(), None, "/null"),
        (in_path(), [1, None, True], "/1,null,true"),
        # What separates is encoded where it is a value.
        (query(), "a b&c=d#e?f/g+h%20", "?color=a%20b%26c%3Dd%23e%3Ff%2Fg%2Bh%2520"),
        (query(), ["a,b", "c"], "?color=a%2Cb,c"),
        (query("spaceDelimited"), ["a b", "c"], "?color=a%20b%20c"),
        (query("pipeDelimited"), ["a|b", "c"], "?color=a%7Cb%7Cc"),
        (query(explode=True), {"a&b": "c=d"}, "?a%26b=c%3Dd"),
        (query(name="a[b]&c"), "x", "?a%5Bb%5D%26c=x"),
        (query(), "日本", "?color=%E6%97%A5%E6%9C%AC"),
        (in_path(), "日本 /?#%", "/%E6%97%A5%E6%9C%AC%20%2F%3F%23%25"),
        (in_path(explode=True), {"a=b": "c,d"}, "/a%3Db=c%2Cd"),
        # Reserved characters, except those that would end the parameter.
        (query(allow_reserved=True), "http://a/b?c=(d);e@f:1,'*!$", "?color=http://a/b?c=(d);e@f:1,'*!$"),
        (query(allow_reserved=True), "a&b#c+d%26[e]", "?color=a%26b%23c%2Bd%2526%5Be%5D"),
        (query(allow_reserved=True), ["a,b", "/c"], "?color=a%2Cb,/c"),
        (query(explode=True, allow_reserved=True), ["a/b", "c:d"], "?color=a/b&color=c:d"),
        # Empty lists and objects are undefined in RFC 6570.
        (query(), [], ""),
        (query(explode=True), {}, ""),
        (query("deepObject", explode=True), {}, ""),
        (query(allow_empty=True), [], "?color="),
        (query(allow_empty=True), "", "?color="),
        # What the standard leaves open.
        (query("deepObject", explode=True), {"a": {"b": 1}}, "?color%5Ba%5D%5Bb%5D=1"),
        (query("deepObject", explode=True), {"a": ["x", "y"]}, "?color%5Ba%5D%5B0%5D=x&color%5Ba%5D%5B1%5D=y"),
        (query("deepObject", explode=True), ["x", {"y": 1}], "?color%5B0%5D=x&color%5B1%5D%5By%5D=1"),
        (query("deepObject", explode=True), "x", "?color=x"),
        (query(), [{"a": 1}], "?color=%7B%22a%22%3A1%7D"),
        (query(explode=True), {"a": [1, 2]}, "?a=%5B1%2C2%5D"),
        # Parameters with content.
        (query(media_type="application/json"), {"a": [1, None]}, "?color=%7B%22a%22%3A%5B1%2Cnull%5D%7D"),
        (query(media_type="application/json"), "x", "?color=%22x%22"),
        (query(media_type="application/vnd.a+json"), [], "?color=%5B%5D"),
        (query(media_type="*/*"), "x", "?color=%22x%22"),
        (query(media_type="text/plain"), "x y", "?color=x%20y"),
        (in_path(media_type="application/json"), {"a": 1}, "/%7B%22a%22%3A1%7D"),
    ],
)
async def test_a_parameter_is_written_as_its_style_says(
    service: Service, parameter: Parameter, value: Any, target: str
) -> None:
    assert await service.target(parameter, value) == target


@pytest.mark.parametrize(
    ("parameter", "value", "text"),
    [
        (in_header(), "blue", "blue"),
        (in_header(), LIST, "blue,black,brown"),
        (in_header(), OBJECT, "R,100,G,200,B,150"),
        (in_header(explode=True), LIST, "blue,black,brown"),
        (in_header(explode=True), OBJECT, "R=100,G=200,B=150"),
        (in_header(), "", ""),
        (in_header(), 0, "0"),
        (in_header(), False, "false"),
        (in_header(), None, "null"),
        (in_header(), 'a b/c;d="e"', 'a b/c;d="e"'),
        (in_header(media_type="application/json"), {"a": [1, ""]}, '{"a":[1,""]}'),
    ],
)
async def test_a_header_is_written_as_its_style_says(
    service: Service, parameter: Parameter, value: Any, text: str
) -> None:
    seen = await service.request(Operation("GET", "/things", (parameter,)), {"X-Color": value})
    assert seen.headers["x-color"] == text
    assert seen.target == "/ok/things"


async def test_what_is_absent_is_not_sent(service: Service) -> None:
    operation = Operation("GET", "/things", (query(), query(name="b"), in_header()))
    without: list[dict[str, Any]] = [{}, {"color": [], "X-Color": []}, {"color": {}, "X-Color": {}}]
    for empty in without:
        seen = await service.request(operation, {"b": 0, **empty})
        assert seen.target == "/ok/things?b=0"
        assert "x-color" not in seen.headers


async def test_parameters_keep_the_order_of_the_document(service: Service) -> None:
    operation = Operation("GET", "/a/{y}/{x}", (query(name="b"), in_path(name="x"), query(name="a"), in_path(name="y")))
    seen = await service.request(operation, {"a": 1, "b": 2, "x": 3, "y": 4})
    assert seen.target == "/ok/a/4/3?b=2&a=1"


async def test_an_argument_goes_to_the_place_of_its_parameter(service: Service) -> None:
    parameters = (
        Parameter("id", "id", "path", "simple", False),
        Parameter("id_query", "id", "query", "form", True),
        Parameter("id_header", "id", "header", "simple", False),
    )
    seen = await service.request(Operation("GET", "/a/{id}", parameters), {"id": 1, "id_query": 2, "id_header": 3})
    assert seen.target == "/ok/a/1?id=2"
    assert seen.headers["id"] == "3"


async def test_names_that_clients_refuse_find_back_to_those_of_the_document(service: Service) -> None:
    operation = Operation("GET", "/a", (query(name="filter[x]"),))
    seen = await service.request(operation, {"filter_x_ab12": "1"}, keys={"filter_x_ab12": "filter[x]"})
    assert seen.target == "/ok/a?filter%5Bx%5D=1"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/a/{x}.json", "/a/1.json"),
        ("/a/{x}-{x}", "/a/1-1"),
        ("/a/{x}/", "/a/1/"),
        ("/a b/é", "/a%20b/%C3%A9"),
        ("/a%20b", "/a%20b"),
        ("/?action=list&id={x}", "/?action=list&id=1&color=2"),
        ("/a#fragment", "/a"),
        ("a", "/a"),
        ("@elsewhere/a", "/@elsewhere/a"),
        ("//elsewhere/a", "//elsewhere/a"),
        ("", "/"),
    ],
)
async def test_a_path_of_a_document_is_below_the_base_url(service: Service, path: str, target: str) -> None:
    operation = Operation("GET", path, (in_path(name="x"), query()))
    values = {"x": 1} | ({"color": 2} if "?" in path else {})
    seen = await service.request(operation, values)
    assert seen.target == f"/ok{target}"
    assert seen.headers["host"] == f"127.0.0.1:{service.server.port}"


@pytest.mark.parametrize("path", ["/../secret", "/a/../../secret", "/%2e%2e/secret", "/./a", "/a/..%2fb", "/..\\b"])
async def test_a_path_of_a_document_cannot_leave_the_base_url(service: Service, path: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be called"):
        await service.call(Operation("GET", path))
    assert not service.server.requests


DOTS = [
    "",
    " ",
    ".",
    "..",
    "../x",
    "x/..",
    "x/../y",
    "..\\x",
    "%2e%2e",
    "%2E%2e/x",
    "%252e%252e",
    "..%2fx",
    "..%5cx",
    "x/./y",
]
ODD = ["a\nb", "a\0b", "a\u200bb", "\ud800", "a" * 2000, [".."], [], {}, ["b", "a/.."]]
LOOKING_LIKE_A_PATH = {
    "a/b": "/a%2Fb",
    "/etc/passwd": "/%2Fetc%2Fpasswd",
    "%2f": "/%252f",
    "a?b#c": "/a%3Fb%23c",
    "...": "/...",
    "a;b": "/a%3Bb",
    "a\\b": "/a%5Cb",
    "@host": "/%40host",
    "http://a.b": "/http%3A%2F%2Fa.b",
}


@pytest.mark.parametrize("value", [*DOTS, *ODD])
async def test_a_value_never_leaves_its_segment(service: Service, value: Any) -> None:
    for explode in (False, True):
        with pytest.raises(InvalidArgumentsError):
            await service.target(in_path(explode=explode), value)
    assert not service.server.requests


@pytest.mark.parametrize(("value", "target"), LOOKING_LIKE_A_PATH.items())
async def test_a_value_that_looks_like_a_path_is_encoded(service: Service, value: str, target: str) -> None:
    assert await service.target(in_path(), value) == target


@pytest.mark.parametrize("values", [{"x": ".", "y": "."}, {"x": "%2e", "y": "."}, {"x": "%", "y": "2e."}])
async def test_values_together_never_leave_their_segment(service: Service, values: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentsError):
        await service.call(Operation("GET", "/a/{x}{y}/b", (in_path(name="x"), in_path(name="y"))), values)
    assert not service.server.requests


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b", " a", "a ", "é", ["a", "b\r\n"], {"a\n": 1}]
)
async def test_a_header_cannot_bring_another_one(service: Service, value: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="X-Color"):
        await service.call(Operation("GET", "/a", (in_header(),)), {"X-Color": value})
    assert not service.server.requests


@pytest.mark.parametrize("name", ["Host", "AUTHORIZATION", "Content-Length", "Transfer-Encoding", "Cookie", "Accept"])
async def test_headers_of_the_hub_are_not_for_callers(service: Service, name: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="the hub sets this header"):
        await service.call(Operation("GET", "/a", (in_header(name=name),)), {name: "x"})
    assert not service.server.requests


@pytest.mark.parametrize("name", ["X-A: b\r\nX-B", "", "a b", "é", "a" * 101])
async def test_a_document_cannot_bring_a_header_in_a_name(service: Service, name: str) -> None:
    with pytest.raises(InvalidArgumentsError, match="not the name of a header"):
        await service.call(Operation("GET", "/a", (in_header(name=name),)), {name: "x"})
    assert not service.server.requests


async def test_an_unknown_argument_is_refused(service: Service) -> None:
    with pytest.raises(InvalidArgumentsError, match="Unknown parameter: colour"):
        await service.call(Operation("GET", "/a", (query(),)), {"colour": "blue"})
    assert not service.server.requests


async def test_a_part_of_the_path_without_a_value_is_named(service: Service) -> None:
    with pytest.raises(InvalidArgumentsError, match="color: a value is required"):
        await service.call(Operation("GET", "/a/{color}", (in_path(),)))
    assert not service.server.requests


@pytest.mark.parametrize("parameter", [query(), query("deepObject", explode=True), query(explode=True)])
async def test_half_a_character_cannot_be_sent(service: Service, parameter: Parameter) -> None:
    with pytest.raises(ToolError, match="incomplete character"):
        await service.target(parameter, {"\ud800": "\ud800"})
    assert not service.server.requests
