"""Finds prompt injection in the descriptions of tools.

Models trust a description as if their operator had written it. Invisible characters are refused when the tool is
defined (`hidden`). Text that gives agents orders, asks them to hide something from people, refers to other tools, or
is not a description at all is a finding, which operators see and decide about.

The rules match words and can be evaded with others: they find copied and careless injections.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from tools_app.sdk.errors import shortened
from tools_app.sdk.schemas import parts_of
from tools_app.text import hygiene

MOST_LINES: Final = 4
MOST_CHARACTERS: Final = 1_024
# For definitions by others: many are longer than those of this hub may be.
MOST_LINES_OUTSIDE: Final = 60
MOST_CHARACTERS_OUTSIDE: Final = 4_096
# The rules check no more than this.
MOST_CHECKED: Final = 8_192
MOST_FINDINGS: Final = 20

RULES: Final = Path(__file__).with_name("wording.toml")
# Runs that are not words: base64, or hexadecimal that is longer than a digest.
_BLOB: Final = re.compile(r"[A-Za-z0-9+/_-]{48,}={0,2}")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[_-][a-z0-9]+)+")


@dataclass(frozen=True, slots=True)
class Others:
    """The names of all tools outside a pack, as a container with constant-time lookup."""

    pack: str
    # The pack of every tool, by its folded name.
    packs: Mapping[str, str]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.packs.get(name, self.pack) != self.pack


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in the texts of a tool: the place, and the fault."""

    place: str
    fault: str

    def __str__(self) -> str:
        return f"the {self.place} {self.fault}"


def hidden(text: str) -> bool:
    """Whether a text has invisible characters."""
    return hygiene.cleaned(text) != text


def faults(text: str, others: Container[str] = (), *, outside: bool = False) -> list[str]:
    """The faults of a description. `others` are folded names of tools that it should not mention; `outside`: it is by
    a source outside."""
    start = text[:MOST_CHECKED]
    return [*_size_faults(text, outside=outside), *_word_faults(start, outside), *_name_faults(start, others)]


def findings(definition: Mapping[str, Any], others: Container[str] = ()) -> list[Finding]:
    """The first findings in the texts of a definition."""
    # Own definitions have no pin.
    outside = "pin" in definition
    results: list[Finding] = []
    if definition.get("hidden"):
        results.append(Finding("definition", "had invisible characters, which agents do not see"))
    for place, text in texts(definition):
        results += [Finding(place, fault) for fault in faults(text, others, outside=outside)]
    for place, text in _values(definition) if outside else ():
        results += [Finding(place, fault) for fault in _word_faults(text[:MOST_CHECKED], outside)]
    return results[:MOST_FINDINGS]


def texts(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a definition, each with its place."""
    yield "title", definition.get("title") or ""
    yield "description", definition.get("description") or ""
    yield "note of deprecation", definition.get("deprecated") or ""
    yield "keywords", " ".join(map(str, definition.get("keywords") or ()))
    for part in parts_of(definition.get("inputSchema") or {}):
        if isinstance(text := part.body.get("description"), str):
            yield f"description of parameter {part}", text
    for example in definition.get("examples") or ():
        yield "description of an example", str(example.get("description") or "")


def _values(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Texts in schemas that are no descriptions, but are read by agents like them."""
    for part in parts_of(definition.get("inputSchema") or {}):
        values = [part.body[name] for name in ("title", "default", "examples", "enum", "const") if name in part.body]
        if text := " ; ".join(_strings(values)):
            yield f"values of parameter {part}", text


def _strings(values: list[Any]) -> Iterator[str]:
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | dict):
            values += value.values() if isinstance(value, dict) else value


def _size_faults(text: str, *, outside: bool) -> Iterator[str]:
    lines, characters = (MOST_LINES_OUTSIDE, MOST_CHARACTERS_OUTSIDE) if outside else (MOST_LINES, MOST_CHARACTERS)
    if len(text.splitlines()) > lines:
        yield f"has more than {lines} lines"
    if len(text) > characters:
        yield f"has more than {characters:,} characters"


@lru_cache(4096)
def _word_faults(text: str, outside: bool) -> tuple[str, ...]:
    visible = hygiene.cleaned(text)
    results = ["has invisible characters"] if visible != text else []
    # Look-alikes of letters and repeated whitespace would evade every rule.
    plain = " ".join(unicodedata.normalize("NFKC", visible).casefold().replace("’", "'").split())
    for pattern in read_rules(RULES, "harmless")["outside"] if outside else ():
        plain = pattern.sub(" … ", plain)
    for fault, patterns in read_rules(RULES).items():
        matches = [match for pattern in patterns if (match := pattern.search(plain))]
        if matches:
            first = min(matches, key=re.Match.start)
            results.append(f"{fault} ({shortened(first[0], 60)!r})")
    if any(_is_blob(match[0]) for match in _BLOB.finditer(visible)):
        results.append("contains a run of unreadable characters")
    return tuple(results)


@cache
def read_rules(path: Path, table: str = "rules") -> Mapping[str, Sequence[re.Pattern[str]]]:
    """The patterns of each finding. Raises ValueError with the file, and the pattern that is wrong."""
    # Read and compiled at first use: few processes need them, and it would slow down every start.
    import tomllib

    try:
        match tomllib.loads(path.read_text(encoding="utf-8")):
            case {"words": dict(lists), **tables} if isinstance(rules := tables.get(table), dict):
                words = {name: f"(?:{'|'.join(_expressions(name, value))})" for name, value in lists.items()}
                return {
                    finding: [_compiled(expression, words) for expression in _expressions(finding, value)]
                    for finding, value in rules.items()
                }
        raise ValueError(f"expected two tables, words and {table}")
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _expressions(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name!r}: expected a list of regular expressions")
    return value


def _compiled(expression: str, words: Mapping[str, str]) -> re.Pattern[str]:
    try:
        pattern = re.compile(re.sub(r"\{([a-z_]+)\}", lambda match: words[match[1]], expression))
    except KeyError as error:
        raise ValueError(f"{expression!r}: no list is named {error}") from None
    except re.error as error:
        raise ValueError(f"{expression!r}: {error}") from None
    if pattern.search(""):
        raise ValueError(f"{expression!r}: matches every text")
    return pattern


def _is_blob(run: str) -> bool:
    digits = sum(character.isdigit() for character in run)
    mixed = any(map(str.isupper, run)) and any(map(str.islower, run))
    hexadecimal = not run.strip("0123456789abcdefABCDEF") and len(run) > 64
    return hexadecimal or (mixed and digits > 0)


def _name_faults(text: str, others: Container[str]) -> Iterator[str]:
    names = sorted(name for name in {match[0].replace("-", "_") for match in _NAME.finditer(text)} if name in others)
    if names:
        yield f"names tools of other packs ({', '.join(names[:5])})"
