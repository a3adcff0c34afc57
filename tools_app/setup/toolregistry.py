"""The registry as its design document names it: register, list, get, execute, enable, disable, unregister.

A façade: all instances use the current hub. Tools are in its registry, operators' decisions in the database,
and `execute` is a call like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tools_app import engine, governance, sources
from tools_app.access import access
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.sdk.decorator import SchemaTool
from tools_app.sdk.errors import ToolNotFoundError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.parameters import ToolParameter
from tools_app.sdk.schemas import Schema
from tools_app.sdk.spec import ToolSpec
from tools_app.sdk.tool import Tool
from tools_app.sources import sync

Implementation = Callable[[dict[str, Any]], Awaitable[Any] | Any]

ACTOR: Final = "code"
_AS_VALUE: Final = engine.Options(as_value=True)
_METADATA: Final = (
    *("name", "description", "parameters", "version", "category", "tags", "author", "examples", "dependencies"),
)


@dataclass(frozen=True)
class ToolRegistryEntry:
    """A registered tool with its state."""

    metadata: dict[str, Any]
    implementation: Callable[..., Any] | None
    registered_at: datetime
    version: str
    enabled: bool
    tags: tuple[str, ...] = ()
    category: str = ""
    dependencies: tuple[str, ...] = field(default=())


Metadata = dict[str, Any]
# An alias, as `list` is a method inside the class.
Listed = list[Metadata]


class ToolRegistry:
    """Synchronous, as it uses the database; only `execute` is a coroutine."""

    def register(
        self,
        metadata: Mapping[str, Any],
        implementation: Implementation,
        *,
        version: str = "",
        tags: Iterable[str] | None = None,
        category: str = "",
        hints: Hints | None = None,
        overwrite: bool = False,
    ) -> None:
        """Register a tool described by metadata. Arguments override the metadata.

        Raises:
            DefinitionError: name, description, parameters or examples are invalid, or the name is taken.
        """
        if unknown := metadata.keys() - set(_METADATA):
            raise DefinitionError(f"Unknown tool metadata: {', '.join(sorted(unknown))}")
        tool = SchemaTool(
            implementation,
            _schema(metadata.get("parameters") or ()),
            name=str(metadata.get("name") or ""),
            description=str(metadata.get("description") or ""),
            version=version or metadata.get("version") or "",
            tags=tuple(metadata.get("tags") or () if tags is None else tags),
            category=category or metadata.get("category") or "",
            author=metadata.get("author") or "",
            hints=hints or Hints(),
            examples=[_example(example) for example in metadata.get("examples") or ()],
            dependencies=tuple(metadata.get("dependencies") or ()),
        )
        registry = sources.current().code.loaded()
        before = registry.get(tool.name)
        registry.add(tool, overwrite=overwrite)
        try:
            sync.register(tool.name, actor=ACTOR)
        except BaseException:
            registry.remove(tool.name)
            if before is not None and isinstance(before.declared, Tool):
                registry.add(before.declared, pack=before.pack)
            raise

    def list(self, *, category: str | None = None, tag: str | None = None, enabled: bool | None = None) -> Listed:
        """Metadata of the tools that match all filters, ordered by name."""
        return [
            _metadata(entry)
            for entry in catalog.current().all
            if (category is None or entry.category == category)
            and (tag is None or tag in entry.tags)
            and (enabled is None or entry.enabled == enabled)
        ]

    def get(self, name: str) -> ToolRegistryEntry | None:
        entry = catalog.current().find(name)
        if entry is None:
            return None
        return ToolRegistryEntry(
            metadata=_metadata(entry),
            implementation=_implementation(entry),
            registered_at=entry.registered_at,
            version=entry.version,
            enabled=entry.enabled,
            tags=entry.tags,
            category=entry.category,
            dependencies=entry.spec.dependencies,
        )

    async def execute(self, name: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Call a tool. Raises: ToolError."""
        result = await engine.call(name, parameters, access.caller_of_process(), door="code", options=_AS_VALUE)
        return result.answer.value

    def search(self, query: str) -> Listed:
        return [_metadata(entry) for entry in catalog.current().matching(query)]

    def filter_by_tag(self, tags: Iterable[str]) -> Listed:
        """Tools that have at least one of the tags."""
        wanted = set(tags)
        return [_metadata(entry) for entry in catalog.current().all if wanted & set(entry.tags)]

    def filter_by_category(self, category: str) -> Listed:
        return self.list(category=category)

    def enable(self, name: str) -> None:
        """Raises: ToolNotFoundError."""
        governance.set_enabled([name], True, actor=governance.trusted(ACTOR))

    def disable(self, name: str) -> None:
        """Raises: ToolNotFoundError."""
        governance.set_enabled([name], False, actor=governance.trusted(ACTOR))

    def unregister(self, name: str) -> None:
        """Remove a tool; its history stays. Raises: ToolNotFoundError."""
        known = sources.current().code.loaded().remove(name)
        if not sync.retire(name, actor=ACTOR) and not known:
            raise ToolNotFoundError.named(name)

    def get_version(self, name: str) -> str:
        """Raises: ToolNotFoundError."""
        entry = catalog.current().find(name)
        if entry is None:
            raise ToolNotFoundError.named(name)
        return entry.version


def _schema(parameters: Iterable[Mapping[str, Any]]) -> Schema:
    properties: Schema = {}
    required: list[str] = []
    for given in parameters:
        try:
            parameter = ToolParameter(**given)
        except TypeError as error:
            raise DefinitionError(f"Tool parameter {given.get('name', '')!r}: {error}") from error
        if parameter.name in properties:
            raise DefinitionError(f"Tool parameter {parameter.name!r} is given twice")
        properties[parameter.name] = parameter.as_schema()
        if parameter.required:
            required.append(parameter.name)
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | {"required": required} if required else schema


def _example(given: Mapping[str, Any]) -> Example:
    return Example(
        description=str(given.get("description") or ""),
        parameters=given.get("parameters") or {},
        expected_result=given.get("expectedResult"),
    )


def _implementation(entry: Entry) -> Implementation | None:
    """The function of a tool, if this process has it."""
    provider = sources.current().providers.get(entry.source_name)
    loaded = provider.loaded().find(entry.spec.kind, entry.spec.key) if provider is not None else None
    return getattr(loaded.declared, "function", getattr(loaded.declared, "run", None)) if loaded is not None else None


def _metadata(entry: Entry) -> dict[str, Any]:
    body = ToolSpec.body_of(entry.spec, name=entry.name, description=entry.description)
    body["parameters"] = [parameter.as_dict() for parameter in ToolParameter.all_of(entry.spec.input_schema)]
    body["tags"] = list(entry.tags)
    return {name: body[name] for name in _METADATA}
