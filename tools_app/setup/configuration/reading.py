"""A configuration file as a document: within limits, without aliases, each problem with its path and line."""

from __future__ import annotations

from typing import Any, Final

import pydantic
import yaml
from yaml import events

from tools_app.sdk.errors import shortened
from tools_app.setup.configuration.document import VERSION, Document
from tools_app.sources.openapi.loading import resolved
from tools_app.text import hygiene

MOST_BYTES: Final = 4 * 1024 * 1024
MOST_NODES: Final = 200_000
MOST_DEPTH: Final = 12
MOST_PROBLEMS: Final = 20

Path = tuple[str | int, ...]


class ConfigurationFileError(Exception):
    """The file cannot be used. Its lines say where, and what instead; no value of the file is repeated."""


def read(content: bytes) -> Document:
    """Raises: ConfigurationFileError."""
    if len(content) > MOST_BYTES:
        raise ConfigurationFileError(f"the file is larger than {MOST_BYTES // 1024**2} MiB")
    reader = _Reader(content)
    value = reader.value()
    if not isinstance(value, dict):
        raise ConfigurationFileError(f"the file must be a mapping that begins with `version: {VERSION}`")
    try:
        return Document.model_validate(value)
    except pydantic.ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        lines = [_sentence(problem, reader.lines) for problem in problems[:MOST_PROBLEMS]]
        more = len(problems) - len(lines)
        raise ConfigurationFileError("\n".join([*lines, *([f"… and {more} more"] if more else [])])) from None


def _sentence(problem: Any, lines: dict[Path, int]) -> str:
    """Without the value, which may be a secret."""
    location = tuple(part for part in problem["loc"] if not _names_an_alternative(part))
    line = next(lines[location[:end]] for end in range(len(location), -1, -1) if location[:end] in lines)
    path = "/" + "/".join(shortened(hygiene.cleaned(str(part)), 60) for part in location)
    match problem["type"]:
        case "extra_forbidden":
            words = "is no field of the file"
        case "missing":
            words = "is missing"
        case "value_error":
            words = str(problem["ctx"]["error"])
        case "literal_error" if location == ("version",):
            words = f"must be {VERSION}: this hub knows no other version of the file"
        case _:
            words = str(problem["msg"])[0].lower() + str(problem["msg"])[1:]
    return f"{path}, line {line}: {words}"


def _names_an_alternative(part: str | int) -> bool:
    """Whether it is no part of the path, but the name of one of several types that the value could have."""
    return isinstance(part, str) and ("[" in part or part in ("str", "bool", "int", "float"))


class _Reader:
    """One document, built from the events of the parser: what is too large is refused before it is built."""

    def __init__(self, content: bytes) -> None:
        # Only its events are used: it constructs nothing.
        self._parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(content)
        self._nodes = 0
        self.lines: dict[Path, int] = {(): 1}

    def value(self) -> Any:
        """Raises: ConfigurationFileError."""
        try:
            while not isinstance(event := self._parser.get_event(), events.DocumentStartEvent):
                if isinstance(event, events.StreamEndEvent):
                    return None
            value = self._node(self._parser.get_event(), ())
            self._parser.get_event()
            if not isinstance(event := self._parser.get_event(), events.StreamEndEvent):
                raise _wrong(event, "a second YAML document begins here")
            return value
        except yaml.YAMLError as error:
            mark: Any = getattr(error, "problem_mark", None)
            place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
            raise ConfigurationFileError(f"the file is not YAML{place}") from None
        except UnicodeDecodeError:
            raise ConfigurationFileError("the file is not UTF-8 text") from None
        finally:
            self._parser.dispose()

    def _node(self, event: Any, path: Path) -> Any:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise ConfigurationFileError(f"the file has more than {MOST_NODES:,} values")
        if len(path) > MOST_DEPTH:
            raise _wrong(event, f"the file is nested deeper than {MOST_DEPTH} levels")
        if isinstance(event, events.AliasEvent) or event.anchor is not None:
            raise _wrong(event, "anchors and aliases (& and *) are not used in this file: write the value out")
        self.lines.setdefault(path, _line_of(event))
        if isinstance(event, events.ScalarEvent):
            return _scalar(event)
        if event.tag is not None:
            raise _wrong(event, "tags (!) are not used in this file")
        if isinstance(event, events.SequenceStartEvent):
            return self._sequence(path)
        return self._mapping(path)

    def _sequence(self, path: Path) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := self._parser.get_event(), events.SequenceEndEvent):
            values.append(self._node(event, (*path, len(values))))
        return values

    def _mapping(self, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := self._parser.get_event(), events.MappingEndEvent):
            if not isinstance(event, events.ScalarEvent) or event.anchor is not None or event.tag is not None:
                raise _wrong(event, "a key must be a text")
            key = str(event.value)
            if "\0" in key:
                raise _wrong(event, "a key must not contain a NUL character")
            if key in values:
                raise _wrong(event, f"{shortened(hygiene.cleaned(key), 60)!r} is there twice")
            # The line of the key: that of an empty value is the next one.
            self.lines[*path, key] = _line_of(event)
            values[key] = self._node(self._parser.get_event(), (*path, key))
        return values


def _scalar(event: Any) -> Any:
    if event.tag is not None and event.tag != "!":
        raise _wrong(event, "tags (!) are not used in this file")
    text = str(event.value)
    if "\0" in text:
        raise _wrong(event, "a text must not contain a NUL character")
    # Of version 1.2: `no` and dates are texts.
    return resolved(text) if event.implicit[0] and event.tag is None else text


def _wrong(event: Any, words: str) -> ConfigurationFileError:
    return ConfigurationFileError(f"line {_line_of(event)}: {words}")


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1
