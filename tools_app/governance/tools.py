"""Changes of tools: switch, policy, approval."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from django.db import transaction
from django.utils import timezone

from tools_app.catalog.snapshot import Snapshot
from tools_app.models import ToolRecord
from tools_app.models.audit import note, note_all
from tools_app.models.tools import POLICY
from tools_app.sdk.errors import ToolNotFoundError, ValidationError
from tools_app.sdk.names import folded


def set_enabled(names: Iterable[str], enabled: bool, *, actor: str, reason: str = "") -> list[str]:
    """Enable or disable tools. Returns the names that changed; the others are left alone.

    Raises:
        ToolNotFoundError: one of the names is unknown; nothing is changed then.
    """
    names_by_folded = {folded(name): name for name in names}
    with transaction.atomic():
        records = {
            record.folded_name: record
            for record in ToolRecord.objects.select_for_update().filter(folded_name__in=names_by_folded).order_by("pk")
        }
        for key, name in names_by_folded.items():
            if key not in records:
                raise ToolNotFoundError.named(name)
        changed = [record for record in records.values() if record.enabled != enabled]
        # A constant number of statements for any number of tools: the write lock must be short.
        keys = [record.pk for record in changed]
        ToolRecord.objects.filter(pk__in=keys).update(enabled=enabled, updated_at=timezone.now())
        action = "tool.enable" if enabled else "tool.disable"
        entries = [(action, record.name, {"enabled": [not enabled, enabled]}) for record in changed]
        note_all(entries, actor=actor, reason=reason)
    return sorted(record.name for record in changed)


def consequences(names: Collection[str], view: Snapshot) -> list[str]:
    """The tools that can no longer be called when these are switched off, as sentences; limited to this view."""
    needing = view.needing(names)
    return [f"{', '.join(users)} cannot be called without {name}" for name, users in sorted(needing.items())]


def set_policy(name: str, policy: Mapping[str, int | None], *, actor: str, reason: str = "") -> list[str]:
    """Set the policy of a tool; None inherits from the tool, its pack and the settings.

    Returns the parts that changed. `policy` may have any of the names in `models.tools.POLICY`.

    Raises:
        ToolNotFoundError, ValidationError
    """
    for part, value in policy.items():
        if part not in POLICY:
            raise ValidationError(f"{part!r} is no policy; known are {', '.join(POLICY)}")
        low, high = POLICY[part]
        if value is not None and not low <= value <= high:
            raise ValidationError(f"{part} must be between {low} and {high}")
    with transaction.atomic():
        record = ToolRecord.objects.select_for_update().filter(folded_name=folded(name)).first()
        if record is None:
            raise ToolNotFoundError.named(name)
        changes = {
            part: [getattr(record, part), value] for part, value in policy.items() if getattr(record, part) != value
        }
        if not changes:
            return []
        decided = {part: after for part, (_, after) in changes.items()}
        if (decided.get("rate_calls", record.rate_calls) is None) != (
            decided.get("rate_seconds", record.rate_seconds) is None
        ):
            raise ValidationError("A rate limit needs both rate_calls and rate_seconds")
        if decided.get("cache_seconds") and not record.read_only:
            raise ValidationError(f"{record.name} says that it writes: its answers cannot be cached")
        note("tool.policy", record.name, actor=actor, reason=reason, changes=changes)
        ToolRecord.objects.filter(pk=record.pk).update(**decided, updated_at=timezone.now())
    return sorted(changes)


def set_ask(name: str, ask: bool, *, actor: str, reason: str = "") -> bool:
    """Set whether every call of a tool needs an operator's approval. False: nothing changed.

    Raises:
        ToolNotFoundError
    """
    with transaction.atomic():
        record = ToolRecord.objects.select_for_update().filter(folded_name=folded(name)).first()
        if record is None:
            raise ToolNotFoundError.named(name)
        if record.ask == ask:
            return False
        ToolRecord.objects.filter(pk=record.pk).update(ask=ask, updated_at=timezone.now())
        note("tool.ask", record.name, actor=actor, reason=reason, changes={"ask": [record.ask, ask]})
    return True


def change_tool(
    name: str,
    *,
    enabled: bool | None,
    policy: Mapping[str, int | None],
    ask: bool | None = None,
    actor: str,
    reason: str = "",
) -> None:
    """Switch a tool, set its policy and whether its calls need approval, in one transaction.

    None leaves `enabled` and `ask` unchanged.

    Raises:
        ToolNotFoundError, ValidationError
    """
    with transaction.atomic():
        if enabled is not None:
            set_enabled([name], enabled, actor=actor, reason=reason)
        if ask is not None:
            set_ask(name, ask, actor=actor, reason=reason)
        set_policy(name, policy, actor=actor, reason=reason)
