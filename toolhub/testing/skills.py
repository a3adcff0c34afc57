"""Whether a `SKILL.md` says what the tools of its pack take: each call in it, without making any."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools_app.sdk.errors import InvalidArgumentsError
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.pack import Pack
from tools_app.sdk.schemas import Schema
from tools_app.sdk.spec import FIELDS
from tools_app.sdk.tool import Tool
from tools_app.sources import skills

_FENCED: Final = re.compile(r"^```.*\n(?P<lines>(?:.*\n)*?)```$", re.MULTILINE)
_SPAN: Final = re.compile(r"(?<!`)`(?P<text>[^`\n]+)`(?!`)")
_CALL: Final = re.compile(r"(?P<tool>[a-z][a-z0-9_-]*) (?P<arguments>\{.*)")


def assert_skill(pack: Pack, path: str | Path) -> None:
    """Check that a file is the skill of this pack, and that each call in it names a tool and arguments that fit.

    A call is a line of a code block, or a text in backticks: the name of a tool, a space, the arguments as JSON.

    Raises:
        AssertionError: lists all findings.
    """
    try:
        skill = skills.read(Path(path))
    except DefinitionError as error:
        raise AssertionError(f"{path}: {error}") from None
    findings = []
    if skill.name != skills.name_of(pack):
        findings.append(f"is called {skill.name!r}, and its pack {pack.name!r}")
    called = list(calls_in(skill.instructions))
    if not called:
        findings.append('has no calls, like `get_forecast {"city": "Kyoto"}`')
    tools = {name: tool for tool in pack.tools for name in (tool.name, *tool.aliases)}
    for name, arguments in called:
        findings += [f"{name} {arguments}: {words}" for words in _findings_of(tools.get(name), arguments)]
    if findings:
        raise AssertionError("\n".join(f"{path}: {words}" for words in findings))


def calls_in(text: str) -> Iterator[tuple[str, str]]:
    """The calls that a skill names: tool, and arguments as they are written."""
    lines = [line for block in _FENCED.finditer(text) for line in block["lines"].splitlines()]
    spans = [span["text"] for span in _SPAN.finditer(_FENCED.sub("", text))]
    for written in (*lines, *spans):
        if match := _CALL.fullmatch(written.strip()):
            yield match["tool"], match["arguments"]


def _findings_of(tool: Tool | None, written: str) -> Iterator[str]:
    if tool is None:
        yield "the pack has no such tool"
        return
    try:
        arguments = json.loads(written)
    except ValueError as error:
        yield f"the arguments are not JSON: {error}"
        return
    fields = arguments.pop(FIELDS, [])
    try:
        tool.checked(tool.spec.checker.with_defaults(arguments))
    except InvalidArgumentsError as error:
        yield error.message
    for path in fields:
        if not _leads_somewhere(tool.output_schema or {}, str(path).strip("/").split("/")):
            yield f"the answer has nothing at {path}"


def _leads_somewhere(schema: Schema, steps: list[str]) -> bool:
    """Whether the output schema has this path, or does not say."""
    for step in steps:
        part: Any = schema.get("items") if step == "*" else schema.get("properties", {}).get(step)
        if not isinstance(part, Mapping):
            return not ("items" in schema or "properties" in schema)
        schema = dict(part)
    return True
