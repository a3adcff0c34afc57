"""The bytes of a document as JSON values: within limits, and without objects of any language.

YAML is read as version 1.2 says: `no` and `on` are texts, and so are dates. Every key is a text.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import yaml
from yaml import events

from tools_app.sdk.heavy import measured
from tools_app.sources.openapi.document import DocumentError

MOST_BYTES: Final = 32 * 1024 * 1024
# Values and keys, each alias of YAML counted with all that it stands for.
MOST_NODES: Final = 2_000_000
MOST_DEPTH: Final = 200
SMALLER: Final = "Reduce the document to the operations that you need, or split it."
_REPAIR: Final = "Check it with a validator of OpenAPI documents, and import it again."
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,30}")
_BASED: Final = re.compile(r"0o[0-7]{1,30}|0x[0-9a-fA-F]{1,30}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_CONSTANTS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PREFIX: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"


def loaded(body: bytes, media_type: str = "") -> dict[str, Any]:
    """The object that a document is.

    Raises:
        DocumentError: it is not JSON or YAML, not an object, or too large.
    """
    if len(body) > MOST_BYTES:
        raise DocumentError(f"The document is larger than {MOST_BYTES // 1024**2} MiB", SMALLER)
    try:
        value = _from_json(body) if _is_json(body, media_type) else _Yaml(body).value()
    except RecursionError:
        raise _too_deep() from None
    except MemoryError:
        raise DocumentError("The document needs too much memory", SMALLER) from None
    if not isinstance(value, dict):
        raise DocumentError("The document is not an object with `openapi`, `info` and `paths`", _REPAIR)
    return value


def _is_json(body: bytes, media_type: str) -> bool:
    """Whether it begins as JSON does. YAML has braces too, with keys that need no quotes."""
    start = body[:1000].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")
    second = start[1:].lstrip(b" \t\r\n\0")[:1]
    return start[:1] in (b"{", b"[") and ("json" in media_type or second in (b'"', b"}", b"[", b"{", b"]"))


def _from_json(body: bytes) -> Any:
    try:
        value = json.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError:
        raise DocumentError("The document is not UTF-8 text", _REPAIR) from None
    except json.JSONDecodeError as error:
        raise DocumentError(f"The document is not JSON: line {error.lineno}, column {error.colno}", _REPAIR) from None
    except ValueError:  # Thousands of digits.
        raise DocumentError("The document has a number that is too large", _REPAIR) from None
    extent = measured(value, MOST_NODES)
    if extent.parts > MOST_NODES:
        raise _too_many()
    if extent.depth > MOST_DEPTH:
        raise _too_deep()
    return value


def _too_many() -> DocumentError:
    return DocumentError(f"The document has more than {MOST_NODES:,} values", SMALLER)


def _too_deep() -> DocumentError:
    return DocumentError(f"The document is nested deeper than {MOST_DEPTH} levels", _REPAIR)


class _Yaml:
    """One document, built from the events of the parser: what is too large is refused before it is built."""

    def __init__(self, body: bytes) -> None:
        # Only its events are used: it constructs nothing. Without the C library, Python's own parser is slower.
        self._parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(body)
        self._nodes = 0
        # Anchor → its value, and the number of nodes in it.
        self._anchors: dict[str, tuple[Any, int]] = {}

    def value(self) -> Any:
        """Raises: DocumentError."""
        try:
            return self._document()
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = f": line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
            raise DocumentError(f"The document is neither JSON nor YAML{place}", _REPAIR) from None
        except UnicodeDecodeError:
            raise DocumentError("The document is not UTF-8 text", _REPAIR) from None
        finally:
            self._parser.dispose()

    def _document(self) -> Any:
        while not isinstance(event := self._parser.get_event(), events.DocumentStartEvent):
            if isinstance(event, events.StreamEndEvent):
                return None
        value = self._node(self._parser.get_event(), 1)
        self._parser.get_event()
        if not isinstance(self._parser.get_event(), events.StreamEndEvent):
            raise DocumentError("The file has more than one YAML document", "Import each document by itself.")
        return value

    def _count(self, nodes: int = 1) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise _too_many()

    def _node(self, event: Any, depth: int) -> Any:
        if isinstance(event, events.AliasEvent):
            # An anchor is known when its value is complete: nothing can contain itself.
            if event.anchor not in self._anchors:
                raise self._refused(event, "an alias without an anchor before it")
            value, nodes = self._anchors[event.anchor]
            self._count(nodes)
            return value
        before = self._nodes
        self._count()
        if depth > MOST_DEPTH:
            raise _too_deep()
        if isinstance(event, events.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, events.SequenceStartEvent):
            value = self._sequence(depth)
        else:
            value = self._mapping(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._nodes - before
        return value

    def _sequence(self, depth: int) -> list[Any]:
        values = []
        while not isinstance(event := self._parser.get_event(), events.SequenceEndEvent):
            values.append(self._node(event, depth + 1))
        return values

    def _mapping(self, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := self._parser.get_event(), events.MappingEndEvent):
            key = self._key(event, depth)
            value = self._node(self._parser.get_event(), depth + 1)
            if key == _MERGE and isinstance(event, events.ScalarEvent) and event.implicit[0]:
                for one in value if isinstance(value, list) else [value]:
                    if not isinstance(one, dict):
                        raise self._refused(event, "a merge of what is no mapping")
                    self._count(len(one))
                    merged = {**one, **merged}
            else:
                values[key] = value
        return {**merged, **values} if merged else values

    def _key(self, event: Any, depth: int) -> str:
        """`200` and `on` are texts, as they are."""
        if isinstance(event, events.ScalarEvent):
            self._count()
            return str(event.value)
        if isinstance(event, events.AliasEvent):
            key = self._node(event, depth)
            if isinstance(key, str):
                return key
        raise self._refused(event, "a key that is not a text")

    def _refused(self, event: Any, what: str) -> DocumentError:
        return DocumentError(f"The document has {what}: line {event.start_mark.line + 1}", _REPAIR)


def _scalar(event: Any) -> Any:
    text = str(event.value)
    tag = str(event.tag or "")
    is_plain = (
        event.implicit[0] if not tag else tag in {f"{_PREFIX}{name}" for name in ("int", "float", "bool", "null")}
    )
    return resolved(text) if is_plain else text


def resolved(text: str) -> Any:
    """The value of a plain scalar in the core schema of YAML 1.2. Infinities and NaN stay texts: JSON has none."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text) and len(text) < 400:
        number = float(text)
        return number if math.isfinite(number) else text
    return text
