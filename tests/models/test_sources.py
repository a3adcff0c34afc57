"""Sources and what belongs to them: what the database itself refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError, RestrictedError

from tools_app.models import Connection, Definition, Source, SourceStatus, ToolRecord

pytestmark = pytest.mark.django_db


def refuses(constraint: str, create: Callable[[], Any]) -> None:
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        create()


def outside(**values: Any) -> Source:
    return Source.objects.create(**{"name": "wiki", "prefix": "wiki", "kind": "mcp_http"} | values)


def tool(name: str, **values: Any) -> ToolRecord:
    return ToolRecord.objects.create(name=name, source_kind="code", **values)


@pytest.mark.parametrize(
    ("constraint", "values"),
    [
        ("source_has_a_name", {"name": "", "kind": "code"}),
        ("source_kind_is_known", {"name": "x", "kind": "file"}),
        ("source_trust_is_known", {"name": "x", "kind": "code", "trust": "always"}),
        ("source_start_is_known", {"name": "x", "kind": "code", "start": "never"}),
        ("source_outside_is_named_by_its_prefix", {"name": "wiki", "kind": "openapi"}),
        ("source_outside_is_named_by_its_prefix", {"name": "wiki", "prefix": "wikis", "kind": "mcp_http"}),
        ("source_command_is_for_stdio", {"name": "wiki", "prefix": "wiki", "kind": "mcp_stdio"}),
        ("source_command_is_for_stdio", {"name": "wiki", "prefix": "wiki", "kind": "mcp_http", "command": ["x"]}),
        ("source_retries_within_bounds", {"name": "x", "kind": "code", "retries": 4}),
        ("source_rate_is_whole", {"name": "x", "kind": "code", "rate_calls": 4}),
    ],
)
def test_the_database_refuses_contradictory_sources(constraint: str, values: dict[str, Any]) -> None:
    refuses(constraint, lambda: Source.objects.create(**values))


def test_names_and_prefixes_are_given_once() -> None:
    outside()
    refuses("name", lambda: Source.objects.create(name="wiki", kind="shipped"))
    refuses("prefix", lambda: Source.objects.create(name="other", kind="shipped", prefix="wiki"))
    for name in ("folder", "code"):  # The empty prefix is no prefix.
        Source.objects.create(name=name, kind=name)


@pytest.mark.parametrize("prefix", ["w", "Wiki", "1wiki", "my_wiki", "my-wiki", "wiki\n", "w" * 17])
def test_a_prefix_is_one_short_word(prefix: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Source(name=prefix, prefix=prefix, kind="mcp_http").full_clean(validate_constraints=False)
    assert set(raised.value.error_dict) >= {"prefix"}


def test_a_command_is_kept_word_by_word() -> None:
    source = outside(kind="mcp_stdio", command=["uvx", "wiki server", "--read-only"])
    source.refresh_from_db()
    assert source.command == ["uvx", "wiki server", "--read-only"]
    assert (source.epoch, source.enabled, source.start, source.location) == (1, True, "on_demand", "")


@pytest.mark.parametrize(
    ("kind", "to_approve", "trust", "effective"),
    [
        ("shipped", (), "", "auto"),
        ("plugin", (), "", "auto"),
        ("plugin", ("plugin",), "", "hold_all"),
        ("app", ("plugin",), "", "auto"),
        ("folder", ("file",), "", "hold_all"),
        ("folder", ("folder",), "", "hold_all"),
        ("plugin", ("plugin",), "auto", "auto"),
        ("code", (), "hold_changes", "hold_changes"),
        ("mcp_http", (), "", "hold_all"),
        ("mcp_stdio", (), "", "hold_all"),
        ("openapi", (), "", "hold_all"),
        ("openapi", (), "auto", "auto"),
    ],
)
def test_the_default_trust_follows_the_type(
    kind: str, to_approve: tuple[str, ...], trust: str, effective: str, settings: Any
) -> None:
    settings.TOOLHUB_SOURCES_TO_APPROVE = to_approve
    source = Source(name="x", kind=kind, trust=trust)
    assert source.effective_trust == effective
    assert source.is_outside == (kind in ("mcp_http", "mcp_stdio", "openapi"))


def test_a_source_has_one_status() -> None:
    source = outside()
    status = SourceStatus.objects.create(source=source)
    assert source.status.availability == SourceStatus.Availability.OK
    refuses("source_id", lambda: SourceStatus.objects.create(source=source))
    refuses(
        "source_availability_is_known", lambda: SourceStatus.objects.filter(pk=status.pk).update(availability="gone")
    )


def test_a_source_with_tools_stays() -> None:
    source = outside()
    tool("wiki_search", source=source)
    with pytest.raises(ProtectedError):
        source.delete()


def test_a_connection_that_a_source_uses_stays() -> None:
    connection = Connection.objects.create(name="wiki", pack="wiki", url="https://wiki.example", sealed=b"")
    outside(connection=connection)
    with pytest.raises(RestrictedError):
        connection.delete()


def test_only_tools_are_returned_unless_everything_is_asked_for() -> None:
    source = outside()
    record = tool("search", source=source)
    prompt = tool("search", source=source, kind="prompt")
    assert list(ToolRecord.objects.all()) == [record]
    assert list(source.tools.all()) == [record]
    assert set(ToolRecord.everything.all()) == {record, prompt}
    prompt.title = "Search"
    prompt.save()
    prompt.refresh_from_db()
    definition = Definition.objects.create(tool=prompt, hash="a", version="1", body={})
    assert Definition.objects.select_related("tool").get(pk=definition.pk).tool == prompt


def test_a_name_is_given_once_in_each_kind_also_to_what_is_gone() -> None:
    record = tool("a-b")
    refuses("folded_name|tool_name_once_per_kind", lambda: tool("a_b"))
    tool("a_b", kind="prompt")
    refuses("tool_kind_is_known", lambda: ToolRecord.everything.filter(pk=record.pk).update(kind="skill"))


def test_an_original_name_is_given_once_in_a_source() -> None:
    source, other = outside(), outside(name="docs", prefix="docs")
    assert tool("wiki_search", source=source, original_name="Search!").original_name == "Search!"
    refuses("original_name|tool_once_per_source", lambda: tool("wiki_search2", source=source, original_name="Search!"))
    tool("docs_search", source=other, original_name="Search!")
    tool("search_prompt", source=source, original_name="Search!", kind="prompt")
    assert [tool(name).original_name for name in ("one", "two")] == ["one", "two"]


def test_a_version_is_recorded_once_in_each_epoch() -> None:
    record = tool("search")
    first = Definition.objects.create(tool=record, hash="a", version="1", body={})
    assert (first.epoch, first.pin_hash, first.body_text) == (1, "", "")
    refuses(
        "epoch|definition_once_per_epoch",
        lambda: Definition.objects.create(tool=record, hash="a", version="2", body={}),
    )
    later = Definition.objects.create(tool=record, hash="a", version="1", body={}, epoch=2)
    record.definition, record.offered = first, later
    record.save()
    with pytest.raises(RestrictedError):
        later.delete()
    record.delete()
    assert not Definition.objects.exists()
