"""XML as JSON, safely: nothing is fetched, and documents with a document type (DTD) are refused.

An element with only text is that text. Any other is an object: attributes as `@name`, text as `#text`, child elements
by name, as a list if a name repeats. If that would lose the order (mixed content, alternating names), the children are
a list, `#content`. Comments, processing instructions and whitespace between elements are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any
from xml.parsers import expat


class MarkupError(ValueError):
    """It is not well-formed, has a document type, or is nested too deep."""


def read(text: str, *, deepest: int, most: int | None = None) -> tuple[Any, bool]:
    """The value of the first `most` characters, and whether that is all. The whole text must be well-formed.

    Raises:
        MarkupError
    """
    reader = _Reader(deepest)
    # The text is decoded already, so its declared encoding is ignored. Without a namespace separator, names keep their
    # prefixes.
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.ordered_attributes = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        if most is not None and most < len(text):
            parser.Parse(text[:most].encode())
            parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
            parser.Parse(text[most:].encode(), True)
            return reader.closed(), False
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise MarkupError(str(error)) from error
    return reader.root, True


def _refuse_doctype(*_: Any) -> None:
    raise MarkupError("a document type")


# An element during parsing: name, attributes, and children, each a text or a pair of name and value.
_Open = tuple[str, list[str], list[Any]]


class _Reader:
    def __init__(self, deepest: int) -> None:
        self._deepest = deepest
        self._open: list[_Open] = []
        self.root: Any = None

    def start(self, name: str, attributes: list[str]) -> None:
        if len(self._open) == self._deepest:
            raise MarkupError("nested too deep")
        self._open.append((name, attributes, []))

    def text(self, text: str) -> None:
        self._open[-1][2].append(text)

    def closed(self) -> Any:
        """The value so far, with all open elements closed."""
        while self._open:
            self.end(self._open[-1][0])
        return self.root

    def end(self, name: str) -> None:
        _, attributes, children = self._open.pop()
        if not attributes and len(children) == 1 and isinstance(children[0], str):
            value: Any = children[0]
        else:
            value = _element(attributes, children)
        if self._open:
            self._open[-1][2].append((name, value))
        else:
            self.root = {name: value}


def _element(attributes: list[str], children: list[Any]) -> Any:
    texts = [child for child in children if isinstance(child, str)]
    elements = [child for child in children if not isinstance(child, str)]
    if not attributes and not elements:
        return "".join(texts)
    value: dict[str, Any] = {f"@{attributes[i]}": attributes[i + 1] for i in range(0, len(attributes), 2)}
    if not elements:
        if texts:
            value["#text"] = "".join(texts)
    elif any(not text.isspace() for text in texts):
        value["#content"] = list(_mixed(children))
    else:
        value.update(_grouped(elements))
    return value


def _mixed(children: list[Any]) -> Iterator[Any]:
    # The parser delivers long texts in pieces.
    for is_text, run in groupby(children, key=lambda child: isinstance(child, str)):
        if is_text:
            yield "".join(run)
        else:
            yield from ({name: element} for name, element in run)


def _grouped(elements: list[tuple[str, Any]]) -> dict[str, Any]:
    groups: dict[str, list[Any]] = {}
    latest = ""
    for name, element in elements:
        if name in groups and name != latest:
            return {"#content": [{name: element} for name, element in elements]}
        groups.setdefault(name, []).append(element)
        latest = name
    return {name: group[0] if len(group) == 1 else group for name, group in groups.items()}
