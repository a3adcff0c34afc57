"""Tags that operators add to tools. Tags declared by the author follow the tool's definition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, Change, changing
from tools_app.governance.managed import Kind, refuse_managed
from tools_app.models import Tag, ToolRecord, ToolTag
from tools_app.sdk.errors import ConflictError, ToolNotFoundError, ValidationError, shortened
from tools_app.sdk.names import folded
from tools_app.text import hygiene

MOST_CHARACTERS: Final = 64
MOST_TAGS: Final = 50


@dataclass
class Tagging:
    """The result by tool name: changed, unchanged, or declared and therefore not removable."""

    changed: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)


def add_tag(tag: str, names: Iterable[str], *, actor: Actor, reason: str = "") -> Tagging:
    """Add a tag to tools. Toolsets that select by this tag contain them from the next request on.

    Raises:
        ConflictError: a tool has the maximum number of tags; nothing is changed then.
        ToolNotFoundError: one of the names is unknown; nothing is changed then.
        ValidationError: the tag is not valid.
    """
    tag = _word(tag)
    with changing(actions.TOOL_TAG, actor, reason) as change:
        result, records = Tagging(), _lock(names)
        current_tags = _tags(records)
        tag_row, _ = Tag.objects.get_or_create(name=tag)
        for record in records:
            if tag in current_tags[record.pk]:
                result.already.append(record.name)
            elif len(current_tags[record.pk]) >= MOST_TAGS:
                raise ConflictError(f"{record.name} has {MOST_TAGS} tags, which is the maximum")
            else:
                result.changed.append(record.name)
        refuse_managed(Kind.TOOL, result.changed)
        records_to_tag = [record for record in records if record.name in set(result.changed)]
        ToolTag.objects.bulk_create(ToolTag(tool=record, tag=tag_row) for record in records_to_tag)
        _note(change, result.changed, {"tag": [None, tag]})
    return result


def remove_tag(tag: str, names: Iterable[str], *, actor: Actor, reason: str = "") -> Tagging:
    """Remove from tools a tag that an operator added.

    Raises:
        ToolNotFoundError: one of the names is unknown; nothing is changed then.
        ValidationError: the tag is not valid.
    """
    tag = _word(tag)
    with changing(actions.TOOL_UNTAG, actor, reason) as change:
        result, records = Tagging(), _lock(names)
        current_tags = _tags(records)
        for record in records:
            declared = current_tags[record.pk].get(tag)
            group = result.already if declared is None else result.declared if declared else result.changed
            group.append(record.name)
        refuse_managed(Kind.TOOL, result.changed)
        ToolTag.objects.filter(tool__name__in=result.changed, tag__name=tag, declared=False).delete()
        _note(change, result.changed, {"tag": [tag, None]})
    return result


def _word(tag: str) -> str:
    """Raises: ValidationError."""
    word = tag.strip()
    if not 0 < len(word) <= MOST_CHARACTERS:
        raise ValidationError(f"A tag has 1 to {MOST_CHARACTERS} characters")
    if "," in word or not word.isprintable() or hygiene.cleaned(word) != word:
        # Lists of tags are separated by commas, and invisible characters cannot be typed.
        raise ValidationError(f"A tag must not contain commas or invisible characters: {shortened(word)!r}")
    return word


def _lock(names: Iterable[str]) -> list[ToolRecord]:
    """Raises: ToolNotFoundError."""
    names_by_folded = {folded(name): name for name in names}
    records = list(ToolRecord.objects.select_for_update().filter(folded_name__in=names_by_folded).order_by("pk"))
    if missing_names := names_by_folded.keys() - {record.folded_name for record in records}:
        raise ToolNotFoundError.named(names_by_folded[min(missing_names)])
    return sorted(records, key=lambda record: record.name)


def _tags(records: Iterable[ToolRecord]) -> dict[int, dict[str, bool]]:
    """For each tool its tags, and whether they are declared."""
    by_tool: dict[int, dict[str, bool]] = {record.pk: {} for record in records}
    rows = ToolTag.objects.filter(tool__in=list(by_tool)).values_list("tool_id", "tag__name", "declared")
    for tool, name, declared in rows:
        by_tool[tool][name] = declared
    return by_tool


def _note(change: Change, names: list[str], changes: dict[str, Any]) -> None:
    ToolRecord.objects.filter(name__in=names).update(updated_at=timezone.now())
    for name in names:
        change.note(name, changes)
