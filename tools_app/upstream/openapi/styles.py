"""Parameters in paths, queries and headers, as the styles of OpenAPI write them.

The value of a parameter changes no other part of a request: what separates parts of a URL is encoded, even where a
document permits reserved characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from tools_app.http import addresses
from tools_app.sdk.errors import ConfigurationError, InvalidArgumentsError, Problem, shortened
from tools_app.sdk.operation import Parameter

# Name and value, both encoded.
Pair = tuple[str, str]

DEEP: Final = "deepObject"
_DELIMITERS: Final = {"spaceDelimited": "%20", "pipeDelimited": "%7C"}
# With `allowReserved`, without those that end a parameter or have a meaning in forms: # & + [ ] %
_RESERVED: Final = ":/?@!$'()*,;="
_OF_PATHS: Final = "/%:@!$&'()*+,;=~-._"
_OF_QUERIES: Final = _OF_PATHS + "?"
_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_SEPARATORS: Final = re.compile(r"[/\\]")
_TIMES_DECODED: Final = 3
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE: Final = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)?")
# Of the transport, of content negotiation, and of authentication, which is the connection's.
_OURS: Final = frozenset(
    {
        *("accept", "accept-encoding", "authorization", "connection", "content-encoding", "content-length"),
        *("content-type", "cookie", "cookie2", "expect", "host", "keep-alive", "te", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)
_OUR_FAMILIES: Final = ("proxy-", "sec-")


def refused(argument: str, reason: str, detail: object = None) -> InvalidArgumentsError:
    return InvalidArgumentsError(problems=[Problem(f"/{argument}", f"{argument}: {reason}")], detail=detail)


def text_of(value: object) -> str:
    """A text as it is, anything else as JSON: `0`, `false`, `null`, and objects within lists."""
    return value if isinstance(value, str) else json_of(value)


def json_of(value: object) -> str:
    """Raises: InvalidArgumentsError: it cannot be written as JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgumentsError("A value cannot be sent as JSON", detail=error) from error


def is_json(media_type: str) -> bool:
    kind = media_type.partition(";")[0].strip().lower()
    return kind in ("application/json", "text/json") or kind.endswith("+json")


def _content(parameter: Parameter, value: object) -> str:
    """The text of a parameter with a media type: JSON, unless it is one of text."""
    is_text = parameter.media_type.startswith("text/") and not is_json(parameter.media_type)
    return text_of(value) if is_text else json_of(value)


# ---- path


def target(template: str, values: Mapping[str, tuple[Parameter, Any]]) -> Pair:
    """Path and query of an operation, whose path may have a query of its own. `values`: by the name in the path.

    Raises:
        InvalidArgumentsError: a value would change the path.
        ConfigurationError: the path of the document does.
    """
    path, _, query = template.partition("#")[0].partition("?")
    if any(_leaves(part) for part in path.split("/")):
        raise ConfigurationError(
            f"The path {shortened(template)} cannot be called: it has `.` or `..` as a segment",
            next_step="Its document must be corrected.",
        )
    path = _filled(path if path.startswith("/") else f"/{path}", values, _OF_PATHS)
    if any(_leaves(part) for part in path.split("/")):
        raise InvalidArgumentsError("The arguments are not valid: together they make `.` or `..` of a part of the path")
    return path, _filled(query, values, _OF_QUERIES)


def _filled(template: str, values: Mapping[str, tuple[Parameter, Any]], safe: str) -> str:
    pieces = _VARIABLE.split(template)
    return "".join(_segment(piece, values) if number % 2 else quote(piece, safe) for number, piece in enumerate(pieces))


def _segment(name: str, values: Mapping[str, tuple[Parameter, Any]]) -> str:
    if name not in values:
        raise refused(name, "a value is required, since it is a part of the path")
    parameter, value = values[name]
    parts = [(_content(parameter, value),)] if parameter.media_type else list(_simple(parameter, value))
    # It refuses what is empty, and what a proxy could read as another path.
    addresses.segment(_joined(parts), parameter.argument)
    return _joined([tuple(map(_encoded, part)) for part in parts])


def _simple(parameter: Parameter, value: object) -> Iterator[tuple[str, ...]]:
    """The parts that the style `simple` separates by commas; pairs, if it writes an equals sign between them."""
    if isinstance(value, dict):
        for name, part in value.items():
            pair = name, text_of(part)
            yield from (pair,) if parameter.explode else ((text,) for text in pair)
    elif isinstance(value, list):
        yield from ((text_of(part),) for part in value)
    else:
        yield (text_of(value),)


def _joined(parts: Iterable[tuple[str, ...]]) -> str:
    return ",".join("=".join(part) for part in parts)


def _leaves(segment: str) -> bool:
    for _ in range(_TIMES_DECODED + 1):
        if {".", ".."} & set(_SEPARATORS.split(segment)):
            return True
        segment = unquote(segment)
    return False


# ---- query


def query(parameter: Parameter, value: object) -> Iterator[Pair]:
    """The pairs of a parameter. Empty lists and objects have none, unless the document permits empty values."""
    if parameter.media_type:
        yield _encoded(parameter.name), _encoded(_content(parameter, value))
    elif isinstance(value, list | dict) and not value:
        if parameter.allow_empty:
            yield _encoded(parameter.name), ""
    elif isinstance(value, list | dict):
        yield from _of_parts(parameter, value)
    else:
        yield _encoded(parameter.name), _encoded(text_of(value), _safe(parameter))


def _of_parts(parameter: Parameter, value: list[Any] | dict[str, Any]) -> Iterator[Pair]:
    name, safe = _encoded(parameter.name), _safe(parameter)
    if parameter.style == DEEP:
        yield from _deep(parameter.name, value, safe)
    elif parameter.explode and isinstance(value, list):
        yield from ((name, _encoded(text_of(part), safe)) for part in value)
    elif parameter.explode and isinstance(value, dict):
        yield from ((_encoded(key), _encoded(text_of(part), safe)) for key, part in value.items())
    else:
        delimiter = _DELIMITERS.get(parameter.style, ",")
        parts = value if isinstance(value, list) else [part for pair in value.items() for part in pair]
        # The delimiter within a part is encoded.
        yield name, delimiter.join(_encoded(text_of(part), safe.replace(",", "")) for part in parts)


def _deep(name: str, value: object, safe: str) -> Iterator[Pair]:
    """`a[b]=1`; what the standard leaves open as most servers read it: `a[b][c]=1` and, for lists, `a[b][0]=1`."""
    if isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in parts:
            yield from _deep(f"{name}[{key}]", part, safe)
    elif not isinstance(value, dict | list):
        yield _encoded(name), _encoded(text_of(value), safe)


def _safe(parameter: Parameter) -> str:
    return _RESERVED if parameter.allow_reserved else ""


def _encoded(text: str, safe: str = "") -> str:
    return quote(text, safe=safe)


# ---- headers


def header(parameter: Parameter, value: object) -> Iterator[Pair]:
    """The header, unless its list or object is empty.

    Raises:
        InvalidArgumentsError: the value cannot be sent, or the hub sets this header.
    """
    if not _HEADER_NAME.fullmatch(parameter.name):
        raise refused(parameter.argument, "this is not the name of a header")
    if parameter.name.lower() in _OURS or parameter.name.lower().startswith(_OUR_FAMILIES):
        raise refused(parameter.argument, "the hub sets this header itself; leave it out")
    text = _content(parameter, value) if parameter.media_type else _joined(_simple(parameter, value))
    if not _HEADER_VALUE.fullmatch(text):
        raise refused(
            parameter.argument, "a header takes printable ASCII characters only, without spaces at its beginning or end"
        )
    if parameter.media_type or value not in ([], {}):
        yield parameter.name, text
