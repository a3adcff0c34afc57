"""What a tool, a prompt or a resource says, as data.

A spec is made from a recorded definition, so a process can list and validate without importing any tool. What a tool
does is its runner (`runner.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from tools_app.sdk.accounts import ConnectionKind
from tools_app.sdk.checker import Checker
from tools_app.sdk.dependencies import Dependency
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import folded
from tools_app.sdk.policies import Rate
from tools_app.sdk.schemas import Schema

T = TypeVar("T")

# Parameters that the hub adds to a tool's schema, and that its function does not get.
RAW_PARAMETER: Final = "raw"
FORMAT_PARAMETER: Final = "format"
# An argument of every tool that is for the hub: which parts of the answer to send.
FIELDS: Final = "_fields"


class Kind(StrEnum):
    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"
    TEMPLATE = "template"
    COMPLETION = "completion"

    @property
    def family(self) -> str:
        return Kind.RESOURCE if self is Kind.TEMPLATE else self


@dataclass(frozen=True, slots=True)
class AuthorPolicy:
    """The limits that an author declares, for one tool or for a pack."""

    timeout_ms: int | None = None
    retries: int | None = None
    rate: Rate | None = None
    cache_seconds: int | None = None
    answer_tokens: int | None = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> AuthorPolicy:
        rate = data.get("rate")
        return cls(**{**data, "rate": Rate(*rate) if rate else None}) if data else NO_POLICY

    def as_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "timeout_ms": self.timeout_ms,
            "retries": self.retries,
            "rate": [self.rate.most, self.rate.seconds] if self.rate else None,
            "cache_seconds": self.cache_seconds,
            "answer_tokens": self.answer_tokens,
        }
        return {name: value for name, value in values.items() if value is not None}


NO_POLICY: Final = AuthorPolicy()


class RuntimeField(Generic[T]):
    """A field that is read from `runtime`, at its first use."""

    def __init__(self, read: Callable[[Any], T], default: Any = "", *, key: str = "") -> None:
        self.read, self.default, self.key = read, default, key

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.key = name, self.key or name

    def __get__(self, spec: ToolSpec, owner: type) -> T:
        # Found in the instance from then on, like a cached property.
        value = spec.__dict__[self.name] = self.read(self._data_of(spec).get(self.key, self.default))
        return value

    def _data_of(self, spec: ToolSpec) -> Mapping[str, Any]:
        return spec.runtime


class SpecField(RuntimeField[T]):
    """A field of a definition: the spec reads it from the body, and `body_of` writes it there.

    An optional one is omitted while it is empty, so that hashes of earlier definitions hold.
    """

    def __init__(
        self,
        read: Callable[[Any], T],
        default: Any = "",
        *,
        key: str = "",
        write: Callable[[Any], Any] = lambda value: value,
        is_optional: bool = False,
    ) -> None:
        super().__init__(read, default, key=key)
        self.write, self.is_optional = write, is_optional

    def _data_of(self, spec: ToolSpec) -> Mapping[str, Any]:
        return spec.body


Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ToolSpec:
    """One version of a tool.

    `body` is what others see of it; `hash` is its digest, which approvals are bound to. `runtime` is what the hub has
    to know to run it without asking its code; it is not part of the hash.
    """

    body: Mapping[str, Any]
    runtime: Mapping[str, Any] = field(default_factory=dict)
    hash: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any], runtime: Mapping[str, Any]) -> ToolSpec:
        """The spec of a definition that is not recorded yet.

        Raises:
            TypeError, ValueError, RecursionError: it cannot be written as JSON.
        """
        return cls(body, runtime, hashlib.sha256(canonical(body)).hexdigest())

    # ---- what others see, in the order of a definition

    name = SpecField(str)
    title = SpecField(str)
    description = SpecField(str)
    version = SpecField(str)
    category = SpecField(str)
    tags = SpecField[Names](tuple, (), write=lambda tags: sorted(set(tags)))
    author = SpecField(str)
    input_schema = SpecField[Schema](lambda schema: schema or {}, None, key="inputSchema")
    output_schema = SpecField[Schema | None](lambda schema: schema, None, key="outputSchema")
    hints = SpecField(lambda claims: Hints.read(claims or {}), None, key="annotations", write=Hints.as_dict)
    examples = SpecField[tuple[Example, ...]](
        lambda items: tuple(map(Example.read, items)), (), write=lambda examples: [one.as_dict() for one in examples]
    )
    aliases = SpecField[Names](tuple, (), write=sorted)
    dependencies = SpecField[Names](tuple, (), write=sorted)
    keywords = SpecField[Names](tuple, (), write=sorted, is_optional=True)
    deprecated = SpecField(str, is_optional=True)
    untrusted = SpecField[bool | None](lambda value: value, None, is_optional=True)
    escapes = SpecField(bool, is_optional=True)
    icon_digest = SpecField(str, key="icon", is_optional=True)

    @classmethod
    def body_of(cls, tool: object, **values: Any) -> dict[str, Any]:
        """A body from the attributes of an author's tool, or from these values instead."""
        body: dict[str, Any] = {}
        for part in cls.fields():
            value = values[part.name] if part.name in values else getattr(tool, part.name)
            if not part.is_optional or value not in ("", (), None):
                body[part.key] = part.write(value)
        return body

    @classmethod
    def fields(cls) -> list[SpecField[Any]]:
        return [part for part in vars(cls).values() if isinstance(part, SpecField)]

    @cached_property
    def kind(self) -> Kind:
        return Kind(self.body.get("kind", Kind.TOOL))

    @property
    def key(self) -> str:
        """Its identifier among those of its kind and source: the name or URI that the source uses."""
        return str(self.runtime.get("original") or self.body.get("uri") or self.name)

    @property
    def shown_key(self) -> str:
        """The same in this hub: its name, or the URI by which clients know it."""
        return str(self.body.get("uri") or self.name)

    @property
    def is_outside(self) -> bool:
        """Whether another server runs it, and says what it is."""
        return bool(self.runtime.get("outside"))

    @property
    def label(self) -> str:
        """Its name in the journal: a prompt may have the name of a tool."""
        return self.name if self.kind is Kind.TOOL else f"{self.kind.family}:{self.name}"

    @property
    def address(self) -> str:
        """By which a prompt or resource is called: the names of resources need not be unique."""
        return f"{self.kind.family}:{self.shown_key}"

    @property
    def folded_name(self) -> str:
        return folded(self.name)

    @property
    def shown_description(self) -> str:
        """The description with the note of deprecation."""
        return f"{self.description}\nDeprecated: {self.deprecated}" if self.deprecated else self.description

    @property
    def runnable_examples(self) -> list[Example]:
        """The examples that `checktools` runs."""
        hidden = self.runtime.get("shown_only", ())
        return [example for number, example in enumerate(self.examples) if number not in hidden]

    @cached_property
    def needs(self) -> tuple[Dependency, ...]:
        """The tools that it depends on."""
        return tuple(map(_dependency, self.dependencies))

    @property
    def required(self) -> list[str]:
        """Folded names of the tools without which it cannot be called."""
        return [folded(need.name) for need in self.needs if not need.optional]

    @property
    def tools(self) -> list[str]:
        """The tools that a caller must be able to use to see this prompt or resource."""
        return list(self.body.get("tools", ()))

    @property
    def skill(self) -> Mapping[str, Any]:
        """What a resource or prompt that was made from a `SKILL.md` says of it: digest, and front matter."""
        return self.body.get("skill") or {}

    @property
    def passes_on(self) -> bool:
        """Whether its answers can contain text by outsiders."""
        return self.hints.open_world if self.untrusted is None else self.untrusted

    # ---- what the hub has to know

    place = RuntimeField(str)
    policy = RuntimeField(AuthorPolicy.read, {})
    pack_policy = RuntimeField(AuthorPolicy.read, {})
    # The kind of upstream account that it needs, without the code that explains errors.
    connection = RuntimeField(lambda data: ConnectionKind.read(data) if data else None, None)
    # The environment variables that its pack needs.
    requires = RuntimeField[Names](tuple, ())
    # The name of the upstream, whose calls share limits. Empty for tools that do not leave the hub.
    upstream = RuntimeField(str)
    # The message of a `{success, message, data}` answer; empty for other answers.
    done = RuntimeField(str)
    # Whether its answers have a text form that is not JSON.
    formats_text = RuntimeField(bool, False)
    # Whether free text in its answers is put between marks. Only if `untrusted` is declared, or follows from the
    # connection of the pack: otherwise the text can be the tool's own, which must not be presented as by outsiders.
    marks_text = RuntimeField(bool, False)
    # The parameters that the log may show.
    logged = RuntimeField[Names](tuple, ())
    # Whether a call is forwarded to the tool that its arguments `name` and `arguments` describe.
    forwards = RuntimeField(bool, False)
    blocking = RuntimeField(bool, False)
    starts_off = RuntimeField(bool, False)
    # What an operator has to set before any call is accepted: an option of its connections, the directory for files.
    needs_option = RuntimeField(str)
    needs_files = RuntimeField(bool, False)
    # Of tools outside: why their arguments are not checked, and why they cannot be called; empty if they are, and can.
    unchecked = RuntimeField(str)
    uncallable = RuntimeField(str)
    # In MCP's form.
    icon = RuntimeField[Mapping[str, Any] | None](lambda icon: icon, None)
    # Where the values of arguments come from: a URI template, or the input schema of a function.
    completions = RuntimeField[Mapping[str, Any]](lambda sources: sources, {})

    @cached_property
    def checker(self) -> Checker:
        """The compiled input schema. The source of a tool outside fills in its own defaults."""
        if self.is_outside:
            return Checker({"type": "object"} if self.unchecked else self.input_schema, fills_in=False)
        messages = {tuple(steps): text for steps, text in self.runtime.get("messages", ())}
        numbers, digits = (frozenset(map(tuple, self.runtime.get(name, ()))) for name in ("numbers", "digits"))
        return Checker(self.input_schema, messages, numbers, digits)

    @cached_property
    def output_checker(self) -> Checker | None:
        """Results of tools outside are forwarded even if they do not match."""
        return None if self.output_schema is None or self.is_outside else Checker(self.output_schema)

    def completion(self, argument: str) -> ToolSpec:
        """The spec of the function that completes an argument."""
        shared = ("policy", "pack_policy", "connection", "requires", "upstream")
        runtime = {name: value for name, value in self.runtime.items() if name in shared}
        runtime["completes"] = [self.kind, self.key, argument]
        body = {
            "kind": Kind.COMPLETION,
            "name": f"{self.label}:{argument}",
            "uri": f"{self.address}:{argument}",
            "description": f"Completes {argument}.",
            "version": self.version,
            "inputSchema": self.completions[argument],
            "annotations": self.body.get("annotations"),
        }
        return ToolSpec(body, runtime, self.hash)

    def __repr__(self) -> str:
        return f"<ToolSpec {self.label} {self.hash[:8]}>"


def _dependency(text: str) -> Dependency:
    try:
        return Dependency.read(text)
    except ValueError:
        # Recorded by a newer release, which reads more forms. No tool has such a name, so it is unmet.
        return Dependency(text)


def canonical(definition: Mapping[str, Any]) -> bytes:
    """The form that is hashed.

    Raises:
        TypeError, ValueError, RecursionError
    """
    return json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
