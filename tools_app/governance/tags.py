"""Tags that operators give tools. Those that its author declared stay with a tool as long as the author says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from tools_app.models import Tag, ToolRecord, ToolTag
from tools_app.models.audit import note_all
from tools_app.sdk.errors import ConflictError, ToolNotFoundError, ValidationError, shortened
from tools_app.sdk.names import folded
from tools_app.text import hygiene

MOST_CHARACTERS: Final = 64
MOST_TAGS: Final = 50


@dataclass
class Tagging:
    """What became of a tag, by the names of tools: changed, so already, or declared and therefore kept."""

    changed: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)


def add_tag(tag: str, names: Iterable[str], *, actor: str, reason: str = "") -> Tagging:
    """Give tools a tag. Toolsets that choose by it hold them from the next request on.

    Raises:
        ConflictError: a tool has as many tags as it can have; nothing is changed then.
        ToolNotFoundError: one of the names is unknown; nothing is changed then.
        ValidationError: the tag is none.
    """
    tag = _word(tag)
    with transaction.atomic():
        done, records = Tagging(), _locked(names)
        had = _tags(records)
        kept, _ = Tag.objects.get_or_create(name=tag)
        for record in records:
            if tag in had[record.pk]:
                done.already.append(record.name)
            elif len(had[record.pk]) >= MOST_TAGS:
                raise ConflictError(f"{record.name} has {MOST_TAGS} tags, and can have no more")
            else:
                done.changed.append(record.name)
        changed = [record for record in records if record.name in set(done.changed)]
        ToolTag.objects.bulk_create(ToolTag(tool=record, tag=kept) for record in changed)
        _note("tool.tag", done.changed, {"tag": [None, tag]}, actor=actor, reason=reason)
    return done


def remove_tag(tag: str, names: Iterable[str], *, actor: str, reason: str = "") -> Tagging:
    """Take from tools a tag that an operator gave them.

    Raises:
        ToolNotFoundError: one of the names is unknown; nothing is changed then.
        ValidationError: the tag is none.
    """
    tag = _word(tag)
    with transaction.atomic():
        done, records = Tagging(), _locked(names)
        had = _tags(records)
        for record in records:
            declared = had[record.pk].get(tag)
            those = done.already if declared is None else done.declared if declared else done.changed
            those.append(record.name)
        ToolTag.objects.filter(tool__name__in=done.changed, tag__name=tag, declared=False).delete()
        _note("tool.untag", done.changed, {"tag": [tag, None]}, actor=actor, reason=reason)
    return done


def _word(tag: str) -> str:
    """Raises: ValidationError."""
    word = tag.strip()
    if not 0 < len(word) <= MOST_CHARACTERS:
        raise ValidationError(f"A tag has 1 to {MOST_CHARACTERS} characters")
    if "," in word or not word.isprintable() or hygiene.cleaned(word) != word:
        # Lists of tags have commas between them, and nobody could type what cannot be seen.
        raise ValidationError(f"A tag holds neither commas nor characters that cannot be seen: {shortened(word)!r}")
    return word


def _locked(names: Iterable[str]) -> list[ToolRecord]:
    """Raises: ToolNotFoundError."""
    wanted = {folded(name): name for name in names}
    records = list(ToolRecord.objects.select_for_update().filter(folded_name__in=wanted).order_by("pk"))
    if missing := wanted.keys() - {record.folded_name for record in records}:
        raise ToolNotFoundError.named(wanted[min(missing)])
    return sorted(records, key=lambda record: record.name)


def _tags(records: Iterable[ToolRecord]) -> dict[int, dict[str, bool]]:
    """Of each tool its tags, and whether they were declared."""
    found: dict[int, dict[str, bool]] = {record.pk: {} for record in records}
    rows = ToolTag.objects.filter(tool__in=list(found)).values_list("tool_id", "tag__name", "declared")
    for tool, name, declared in rows:
        found[tool][name] = declared
    return found


def _note(action: str, names: list[str], changes: dict[str, Any], *, actor: str, reason: str) -> None:
    ToolRecord.objects.filter(name__in=names).update(updated_at=timezone.now())
    note_all([(action, name, changes) for name in names], actor=actor, reason=reason)
