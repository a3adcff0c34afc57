"""The registry as its design document tests it, and what the document says it does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.tools import Hub
from tools_app import sources
from tools_app.models import AuditEntry, Call, ToolRecord
from tools_app.sdk.errors import ToolDisabledError, ToolExecutionError, ToolNotFoundError, ValidationError
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.setup.toolregistry import ToolRegistry

METADATA = {"name": "test", "description": "Test tool", "parameters": []}


async def implementation(parameters: dict[str, Any]) -> dict[str, str]:
    return {"result": "ok"}


@pytest.fixture
def registry(hub: Hub) -> ToolRegistry:
    return ToolRegistry()


def execute(registry: ToolRegistry, name: str, parameters: dict[str, Any] | None = None) -> Any:
    return asyncio.run(registry.execute(name, parameters))


def test_should_register_a_tool_successfully(registry: ToolRegistry) -> None:
    registry.register(METADATA, implementation)
    entry = registry.get("test")
    assert entry is not None
    assert entry.implementation is implementation
    assert (entry.version, entry.enabled) == ("1.0.0", True)
    assert abs(datetime.now(UTC) - entry.registered_at) < timedelta(seconds=10)


def test_should_throw_error_for_duplicate_tool_names(registry: ToolRegistry) -> None:
    registry.register(METADATA, implementation)
    with pytest.raises(DefinitionError) as caught:
        registry.register(METADATA, implementation)
    assert str(caught.value) == 'Tool "test" is already registered'


def test_a_name_of_another_source_is_refused_in_the_same_words(registry: ToolRegistry) -> None:
    for overwrite in (False, True):
        with pytest.raises(DefinitionError) as caught:
            registry.register({**METADATA, "name": "echo"}, implementation, overwrite=overwrite)
        assert str(caught.value) == 'Tool "echo" is already registered'
        assert caught.value.__notes__[0].startswith("The other one is at tests/support/packs/small")
    assert execute(registry, "echo", {"message": "hi"}) == {"message": "hi"}
    assert "echo" not in sources.current().code.loaded()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "Tool name is required"),
        ({"name": "  "}, "Tool name is required"),
        ({"name": "Test"}, "Tool name must start with lowercase letter and contain only lowercase letters, numbers"),
        ({"description": ""}, "Tool description is required"),
        ({"description": " "}, "Tool description is required"),
        ({"parameters": [{"name": "a", "type": "text"}]}, "unknown type"),
        (
            {"parameters": [{"name": "a", "type": "number", "minimum": 3, "maximum": 1}]},
            "minimum 3 is greater than maximum 1",
        ),
        ({"parameters": [{"name": "a", "type": "string", "pattern": "("}]}, "is not a regular expression"),
        ({"parameters": [{"name": "a", "type": "string", "pattern": "(?=a)"}]}, "lookaround"),
        ({"parameters": [{"name": "a", "type": "number", "default": "x"}]}, "default is not valid"),
        ({"parameters": [{"name": "a", "type": "string"}] * 2}, "given twice"),
        ({"parameters": [{"name": "a"}]}, "type"),
        ({"examples": [{"description": "wrong", "parameters": {"b": 1}}]}, "Unknown parameter: b"),
        ({"colour": "blue"}, "Unknown tool metadata: colour"),
    ],
)
def test_refuses_what_cannot_be_registered(registry: ToolRegistry, change: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        registry.register({**METADATA, **change}, implementation)
    assert message in str(caught.value)
    assert not ToolRecord.objects.filter(source_kind="code").exists()
    assert registry.get("test") is None


def test_overwriting_keeps_what_operators_decided(registry: ToolRegistry) -> None:
    registry.register(METADATA, implementation)
    registry.disable("test")
    registry.register({**METADATA, "description": "Better"}, implementation, version="2.0.0", overwrite=True)
    entry = registry.get("test")
    assert entry is not None
    assert (entry.enabled, entry.version, entry.metadata["description"]) == (False, "2.0.0", "Better")
    before, after = AuditEntry.objects.get(action="tool.redefine").changes["definition"]
    assert before != after


def test_options_win_over_metadata(registry: ToolRegistry) -> None:
    metadata = {**METADATA, "version": "1.1.0", "category": "one", "tags": ["x"], "author": "Ada"}
    registry.register(metadata, implementation, version="1.2.0", category="two", tags=["y"])
    entry = registry.get("test")
    assert entry is not None
    assert (entry.version, entry.category, entry.tags, entry.metadata["author"]) == ("1.2.0", "two", ("y",), "Ada")


def test_lists_by_every_filter_in_the_order_of_names(registry: ToolRegistry) -> None:
    registry.register({**METADATA, "name": "zeta", "category": "c", "tags": ["t"]}, implementation)
    registry.register({**METADATA, "name": "alpha", "category": "c"}, implementation)
    registry.disable("alpha")
    assert [tool["name"] for tool in registry.list()] == ["alpha", "calculate", "echo", "read_result", "zeta"]
    assert [tool["name"] for tool in registry.list(category="c")] == ["alpha", "zeta"]
    assert [tool["name"] for tool in registry.list(category="c", enabled=True)] == ["zeta"]
    assert [tool["name"] for tool in registry.list(tag="t")] == ["zeta"]
    assert [tool["name"] for tool in registry.filter_by_tag(["t", "math"])] == ["calculate", "zeta"]
    assert [tool["name"] for tool in registry.filter_by_category("c")] == ["alpha", "zeta"]
    assert [tool["name"] for tool in registry.search("numbers")] == ["calculate"]


def test_metadata_comes_back_as_it_was_given(registry: ToolRegistry) -> None:
    parameters = [
        {"name": "id", "type": "string", "description": "Which one", "required": True, "pattern": "^[a-z]+$"},
        {"name": "n", "type": "number", "description": "", "required": False, "default": 3, "minimum": 1, "maximum": 9},
        {"name": "kind", "type": "string", "description": "", "required": False, "enum": ["a", "b"]},
        {"name": "deep", "type": "object", "description": "", "required": False},
    ]
    examples = [{"description": "One", "parameters": {"id": "x"}, "expectedResult": {"ok": True}}]
    registry.register({**METADATA, "parameters": parameters, "examples": examples}, implementation)
    entry = registry.get("test")
    assert entry is not None
    assert entry.metadata["parameters"] == parameters
    assert entry.metadata["examples"] == examples


def test_executes_with_defaults(registry: ToolRegistry) -> None:
    seen: list[dict[str, Any]] = []

    def record(parameters: dict[str, Any]) -> str:
        seen.append(parameters)
        return "done"

    parameters = [{"name": "n", "type": "number", "default": 3}, {"name": "id", "type": "string", "required": True}]
    registry.register({**METADATA, "parameters": parameters}, record, hints=Hints(read_only=True))
    assert execute(registry, "test", {"id": "x"}) == "done"
    assert seen == [{"id": "x", "n": 3}]


def test_execute_refuses_in_the_documents_words(registry: ToolRegistry) -> None:
    async def broken(parameters: dict[str, Any]) -> None:
        raise ValueError("inside")

    parameters = [
        {"name": "s", "type": "string", "required": True},
        {"name": "n", "type": "number"},
        {"name": "b", "type": "boolean"},
        {"name": "o", "type": "object"},
        {"name": "a", "type": "array"},
    ]
    registry.register({**METADATA, "parameters": parameters}, broken)
    with pytest.raises(ToolNotFoundError, match="^Tool not found: nope$"):
        execute(registry, "nope", {})
    with pytest.raises(ValidationError, match="^Required parameter missing: s$"):
        execute(registry, "test", {})
    for name, wrong, kind in [
        ("s", 1, "string"),
        ("n", "1", "number"),
        ("n", True, "number"),
        ("b", 1, "boolean"),
        ("o", [], "object"),
        ("a", {}, "array"),
        ("s", None, "string"),
    ]:
        with pytest.raises(ValidationError, match=f"^Invalid type for parameter {name}: expected {kind}$"):
            execute(registry, "test", {"s": "x", name: wrong})
    with pytest.raises(ToolExecutionError, match="^Tool execution failed: test$"):
        execute(registry, "test", {"s": "x"})
    registry.disable("test")
    with pytest.raises(ToolDisabledError, match="^Tool is disabled: test$"):
        execute(registry, "test", {"s": "x"})
    registry.enable("test")
    with pytest.raises(ToolExecutionError):
        execute(registry, "test", {"s": "x"})


def test_unregistering_forgets_the_tool_but_not_its_history(registry: ToolRegistry) -> None:
    registry.register(METADATA, implementation)
    execute(registry, "test")
    registry.unregister("test")
    assert registry.get("test") is None
    with pytest.raises(ToolNotFoundError):
        execute(registry, "test")
    with pytest.raises(ToolNotFoundError):
        registry.get_version("test")
    with pytest.raises(ToolNotFoundError):
        registry.unregister("test")
    assert Call.objects.filter(tool_name="test", status="succeeded").exists()
    assert "test" not in sources.current().code.loaded()


def test_knows_versions_and_unknown_names(registry: ToolRegistry) -> None:
    registry.register(METADATA, implementation, version="1.10.0")
    assert registry.get_version("test") == "1.10.0"
    assert registry.get("nope") is None
    for change in (registry.enable, registry.disable):
        with pytest.raises(ToolNotFoundError):
            change("nope")


def test_a_tool_that_cannot_be_written_down_is_not_registered(
    registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import DatabaseError

    from tools_app.sources import sync

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(sync, "register", refuse)
    with pytest.raises(DatabaseError):
        registry.register(METADATA, implementation)
    assert "test" not in sources.current().code.loaded()


def test_metadata_comes_back_whole_also_where_another_process_has_the_tool(registry: ToolRegistry) -> None:
    metadata = {
        **METADATA,
        "parameters": [{"name": "a", "type": "number", "description": "A", "required": True, "minimum": 1}],
        "version": "1.2.3",
        "category": "c",
        "tags": ["t"],
        "author": "somebody",
        "examples": [{"description": "One", "parameters": {"a": 1}}],
        "dependencies": ["echo?"],
    }
    registry.register(metadata, implementation)
    entry = registry.get("test")
    assert entry is not None
    assert entry.metadata == metadata
    sources.current().code.loaded().remove("test")
    entry = registry.get("test")
    assert entry is not None
    assert entry.metadata == metadata
    assert entry.dependencies == ("echo?",)
    assert entry.implementation is None
