"""What a source outside lists, as the tools, prompts and resources of this hub."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tools_app.models.sources import LoadProblem, Source
from tools_app.sdk.errors import shortened
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.schemas import MAX_NESTING, Schema
from tools_app.sdk.spec import Kind, ToolSpec, canonical
from tools_app.sources.foreign import pins
from tools_app.sources.foreign.keys import VARIABLE
from tools_app.sources.foreign.names import Names, template_of, uri_of
from tools_app.sources.foreign.schemas import Normalised, normalised
from tools_app.sources.provider import DescribedTool
from tools_app.text import hygiene

log = logging.getLogger("tools_app.sources")

# The version of the rules that make a spec from a foreign definition. It is part of no hash.
NORMALISER: Final = 1
MOST_ITEMS: Final = 2_000
MOST_PROBLEMS: Final = 200
MOST_CHARACTERS: Final = 256 * 1024
MOST_DESCRIPTION: Final = 64 * 1024
MOST_TITLE: Final = 1_000
# Bytes of an original name, which the database indexes.
MOST_NAME: Final = 2_000
# Characters of an output schema that is listed. Agents rarely need it, and pay for it in every list.
MOST_OUTPUT: Final = 8 * 1024
_CLAIMS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
# Whether it destroys or can be repeated is left open: that follows if an operator says that it only reads.
_WRITES: Final = {"readOnlyHint": False, "openWorldHint": True}
# The protocol has no hints for prompts and resources: they are for reading.
_READS: Final = {"readOnlyHint": True, "openWorldHint": True}
# Databases refuse NUL, and no encoding has lone surrogates.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")


def described(
    origin: Origin, listing: Listing, stored_names: Mapping[tuple[str, str], str], *, pin_defaults: bool
) -> tuple[list[DescribedTool], list[LoadProblem]]:
    """Everything in a listing that can be used, and why the rest cannot.

    `stored_names`: (kind, original name) → the name given earlier.
    """
    describer = _Describer(origin, listing, stored_names, pin_defaults=pin_defaults)
    for kind, items in (
        (Kind.TOOL, listing.tools),
        (Kind.PROMPT, listing.prompts),
        (Kind.RESOURCE, listing.resources),
        (Kind.TEMPLATE, listing.templates),
    ):
        describer.add(kind, items)
    # Those of recorded tools first: they say why a tool is missing.
    problems = sorted(describer.problems, key=lambda problem: not problem.tool)
    return describer.tools, problems[:MOST_PROBLEMS]


class _Describer:
    def __init__(
        self, origin: Origin, listing: Listing, stored_names: Mapping[tuple[str, str], str], *, pin_defaults: bool
    ) -> None:
        self.tools: list[DescribedTool] = []
        self.problems: list[LoadProblem] = []
        self._origin, self._unstable, self._pin_defaults = origin, listing.unstable, pin_defaults
        self._names = Names(origin.name, stored_names)
        self._stored = stored_names
        # A reader of this hub makes the definitions of OpenAPI documents. What servers list has no private members.
        self._is_document = origin.kind == Source.Kind.OPENAPI
        self._level = logging.ERROR

    def add(self, kind: Kind, items: Sequence[Any]) -> None:
        keys: set[str] = set()
        for number, item in enumerate(items[:MOST_ITEMS], 1):
            original = ""
            try:
                original = _original(kind, item, key="_key" if self._is_document else "name")
                if original in keys:
                    raise DefinitionError("it is listed twice")
                keys.add(original)
                self._add(kind, original, item)
            except DefinitionError as error:
                self._report(kind, original, number, str(error))
            except Exception as error:  # An error of the rules here: it must not cost the other definitions.
                # One report is enough: sources must not fill the log.
                log.log(self._level, "%s: cannot read %s %d", self._origin.name, kind, number, exc_info=True)
                self._level = logging.DEBUG
                self._report(kind, original, number, f"it cannot be read ({type(error).__name__})")
        if len(items) > MOST_ITEMS:
            reason = f"only the first {MOST_ITEMS:,} of {len(items):,} {kind}s are used"
            self.problems.append(LoadProblem(f"{self._origin.name}:{kind}s", reason))

    def _report(self, kind: Kind, original: str, number: int, reason: str) -> None:
        what = shortened(original) or f"{kind} {number}"
        name = self._stored.get((kind, original), "") if kind is Kind.TOOL else ""
        self.problems.append(LoadProblem(f"{self._origin.name}:{what}", reason, name))

    def _add(self, kind: Kind, original: str, wire: Mapping[str, Any]) -> None:
        title, description = _text(wire, "title"), _text(wire, "description")
        annotations = _mapping(wire.get("annotations"))
        title = title or _text(annotations, "title")
        if len(title) > MOST_TITLE:
            raise DefinitionError(f"its title has more than {MOST_TITLE:,} characters")
        if len(description.encode()) > MOST_DESCRIPTION:
            raise DefinitionError(f"its description is larger than {MOST_DESCRIPTION // 1024} kB")
        schema = normalised(_input_schema(kind, original, wire))
        (title, first), (description, second) = hygiene.counted_json(title), hygiene.counted_json(description)
        # Documents of services are often wrong about answers, and clients refuse what deviates from a listed schema.
        output, why_not_listed = (None, "") if self._is_document else _output_schema(wire)
        is_named = kind in (Kind.TOOL, Kind.PROMPT)
        label = _text(wire, "name") or original
        body: dict[str, Any] = {} if kind is Kind.TOOL else {"kind": str(kind)}
        body |= {
            "name": self._names.of(kind, original if is_named else label, label, unique=is_named),
            "title": title,
            "description": description,
            # What a source says about its own place among other tools has no meaning here.
            "version": "",
            "category": "",
            "tags": [],
            "author": "",
            "inputSchema": schema.schema,
            "outputSchema": output,
            "annotations": _WRITES if kind is Kind.TOOL else _READS,
            "examples": [],
            "aliases": [],
            "dependencies": [],
            "untrusted": True,
        }
        if hidden := schema.hidden + first + second:
            body["hidden"] = hidden
        if kind is Kind.TOOL:
            body["claims"] = {hint: annotations[hint] for hint in _CLAIMS if isinstance(annotations.get(hint), bool)}
        else:
            body |= {"tools": [], **self._resource_fields(kind, original, wire)}
        if hygiene.counted_json(body)[1]:
            # In the name of a definition, for example.
            raise DefinitionError("its parameters have invisible characters")
        operation = _mapping(wire.get("_operation")) if self._is_document else {}
        # The name of an operation has no effect once its tool has one: its key identifies it.
        pinned = {**wire, "name": original} if operation else wire
        body["pin"] = pins.pin_of(kind, pinned, defaults=self._pin_defaults)
        runtime = self._runtime(kind, original, schema, why_not_listed)
        runtime |= {"operation": dict(operation)} if operation else {}
        if _mapping(wire.get("execution")).get("taskSupport") == "required":
            runtime["uncallable"] = "it runs as a task only, and this hub calls no tasks of other servers"
            self.problems.append(
                LoadProblem(f"{self._origin.name}:{body['name']}", runtime["uncallable"], body["name"])
            )
        spec = ToolSpec(body, runtime, self._hash(body))
        raw = json.dumps(wire, ensure_ascii=False)
        self.tools.append(DescribedTool(spec, self._origin.name, raw, body["pin"], NORMALISER))

    def _runtime(self, kind: Kind, original: str, schema: Normalised, why_not_listed: str) -> dict[str, Any]:
        values = {
            "original": original,
            "upstream": self._origin.name,
            "outside": True,
            "starts_off": True,
            "marks_text": True,
            "keys": dict(schema.keys),
            "unchecked": schema.unchecked,
            "output": why_not_listed,
            "unstable": kind is Kind.TOOL and original in self._unstable,
        }
        return {name: value for name, value in values.items() if value}

    def _hash(self, body: Mapping[str, Any]) -> str:
        """What is not pinned does not change it: the version that was recorded first stays."""
        fixed = dict(body)
        for name in ("inputSchema", "outputSchema"):
            if fixed[name] is not None:
                fixed[name] = pins.unordered(fixed[name], defaults=self._pin_defaults)
        return hashlib.sha256(canonical(fixed)).hexdigest()

    def _resource_fields(self, kind: Kind, original: str, wire: Mapping[str, Any]) -> dict[str, str]:
        if kind is Kind.PROMPT:
            return {}
        address = uri_of if kind is Kind.RESOURCE else template_of
        fields = {"uri": address(self._origin.name, original), "mimeType": _text(wire, "mimeType")}
        return {name: value for name, value in fields.items() if value}


def _original(kind: Kind, item: object, *, key: str) -> str:
    """The name or URI that the source uses. `key`: the member of tools that has it.

    Raises:
        DefinitionError: the definition cannot be used.
    """
    if not isinstance(item, Mapping):
        raise DefinitionError("it is not a JSON object")
    original = item.get({Kind.RESOURCE: "uri", Kind.TEMPLATE: "uriTemplate"}.get(kind, key))
    if not isinstance(original, str) or not original.strip():
        raise DefinitionError("it has no name")
    if fault := _fault(item):
        raise DefinitionError(fault)
    if len(original.encode()) > MOST_NAME:
        raise DefinitionError(f"its name is longer than {MOST_NAME:,} bytes")
    return original


def _fault(item: Mapping[str, Any]) -> str:
    """Why a definition cannot be stored; empty if it can."""
    pending: list[tuple[Any, int]] = [(item, 1)]
    characters = 0
    while pending:
        value, depth = pending.pop()
        # Punctuation is not counted exactly.
        characters += 2
        # Most are texts.
        if isinstance(value, str):
            characters += len(value)
            if _UNSTORABLE.search(value):
                return "it has characters that cannot be stored"
        elif isinstance(value, Mapping):
            pending += [(one, depth + 1) for one in value.values()]
            pending += [(name, depth) for name in value]
        elif isinstance(value, list):
            pending += [(one, depth + 1) for one in value]
        elif isinstance(value, float) and not math.isfinite(value):
            return "it has a number that is not finite"
        if depth > MAX_NESTING + 1:
            return f"it is nested deeper than {MAX_NESTING} levels"
        if characters > MOST_CHARACTERS:
            return f"it is larger than {MOST_CHARACTERS // 1024} kB"
    return ""


def _input_schema(kind: Kind, original: str, wire: Mapping[str, Any]) -> object:
    if kind is Kind.TOOL:
        return wire.get("inputSchema")
    properties: Schema = {}
    required: list[str] = []
    if kind is Kind.TEMPLATE:
        properties = {name: {"type": "string"} for name in VARIABLE.findall(original)}
        required = list(properties)
    arguments = wire.get("arguments") or [] if kind is Kind.PROMPT else []
    for argument in arguments if isinstance(arguments, list) else [arguments]:
        if not isinstance(name := _mapping(argument).get("name"), str):
            raise DefinitionError("it has an argument without a name")
        properties[name] = {"type": "string", "description": _text(argument, "description")}
        required += [name] if argument.get("required") is True else []
    return {"properties": properties, "required": required}


def _output_schema(wire: Mapping[str, Any]) -> tuple[Schema | None, str]:
    """The schema of results for lists, or why it is not listed. Results are never checked."""
    if (schema := wire.get("outputSchema")) is None:
        return None, ""
    # Results keep the names that the source uses.
    output = normalised(schema, renames=False)
    if output.unchecked:
        return None, output.unchecked
    if len(json.dumps(output.schema, ensure_ascii=False)) > MOST_OUTPUT:
        return None, f"it is larger than {MOST_OUTPUT // 1024} kB"
    return output.schema, ""


def _text(wire: Mapping[str, Any], name: str) -> str:
    value = wire.get(name)
    return value if isinstance(value, str) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
