"""Changes of sources: switch, trust, policy, and describing one again."""

from __future__ import annotations

from collections.abc import Mapping

from tools_app import sources
from tools_app.access import actions
from tools_app.base.ports import UnavailableError
from tools_app.governance.actors import Actor, changing
from tools_app.governance.managed import Kind, refuse_managed
from tools_app.governance.policies import check_policy, policy_changes
from tools_app.models import Source
from tools_app.sdk.errors import ConflictError, NotFoundError, ValidationError, shortened
from tools_app.sources import outside, sync
from tools_app.sources.provider import NotHereError
from tools_app.sources.recording import SyncReport
from tools_app.text import hygiene


def change_source(
    name: str,
    *,
    enabled: bool | None = None,
    trust: str | None = None,
    policy: Mapping[str, int | None] | None = None,
    actor: Actor,
    reason: str = "",
) -> list[str]:
    """Switch a source, set its trust and its policy, in one transaction. Returns the parts that changed.

    None leaves `enabled` and `trust` unchanged; an empty trust is the default of the source type. Trust applies from
    the next description on: it decides about no version that waits.

    Raises:
        NotFoundError, ValidationError
        AuthorizationError: a program would make the trust less strict.
    """
    check_policy(policy or {})
    if trust is not None and trust not in Source.Trust.values:
        raise ValidationError(f"trust must be one of {', '.join(filter(None, Source.Trust.values))}, or empty")
    with changing(actions.SOURCE_CHANGE, actor, reason) as change:
        # Between two batches of a description, which reads the trust again.
        sync.lock()
        source = _source(name)
        subject = f"source:{name}"
        if enabled is not None and enabled != source.enabled:
            action = actions.SOURCE_ENABLE if enabled else actions.SOURCE_DISABLE
            change.note(subject, {"enabled": [source.enabled, enabled]}, action)
        if trust is not None and trust != source.trust:
            if _is_looser(source, trust):
                actor.require(actions.SOURCE_TRUST_MORE, name)
            change.note(subject, {"trust": [source.trust, trust]}, actions.SOURCE_TRUST)
        if limits := policy_changes(source, policy or {}):
            change.note(subject, dict(limits), actions.SOURCE_POLICY)
        changes = {part: values for *_, parts in change.entries for part, values in parts.items()}
        if changes:
            refuse_managed(Kind.SOURCE, [name], changes)
            Source.objects.filter(pk=source.pk).update(**{part: after for part, (_, after) in changes.items()})
        if enabled and source.is_outside and not source.enabled:
            outside.list_again(name)
    return sorted(changes)


def describe_source(name: str, *, actor: Actor, reason: str = "") -> SyncReport:
    """Describe a source again now, and record what it contains. Blocks, as its code may be imported.

    Raises:
        NotFoundError
        ConflictError: this process does not have the source, or only an older version of it; or the source cannot be
            described.
    """
    with changing(actions.SOURCE_DESCRIBE, actor, reason) as change:
        _source(name)
        if sources.current().provider(name) is not None:
            # Audited first: the description is recorded in transactions of its own.
            change.note(f"source:{name}", {})
    try:
        return sources.current().describe(name, actor=actor.name)
    except NotHereError as error:
        raise ConflictError(f"Source {name} cannot be described: {error}", next_step=error.next_step) from error
    except UnavailableError as error:
        # It may quote what a server said.
        raise ConflictError(f"Source {name} cannot be described: {hygiene.cleaned(str(error))}") from error


def _is_looser(source: Source, trust: str) -> bool:
    levels = list(Source.Trust)
    return levels.index(Source(kind=source.kind, trust=trust).effective_trust) < levels.index(source.effective_trust)


def _source(name: str) -> Source:
    source = Source.objects.select_for_update().filter(name=name, removed_at=None).first()
    if source is None:
        raise NotFoundError(f"There is no source {shortened(name)!r}", next_step="The sources are at /v1/sources.")
    return source
