"""Storing one server of an import: the source and its connection, in one transaction."""

from __future__ import annotations

from django.db import transaction

from tools_app.governance.actors import Actor
from tools_app.governance.connections import create_connection
from tools_app.governance.imports.plan import Outcome, PlannedSource
from tools_app.governance.outside import add_source, change_origin
from tools_app.models import Connection
from tools_app.models.sources import Source


def import_source(planned: PlannedSource, *, actor: Actor, reason: str = "") -> Source:
    """Add what was planned as `ADDED`, switched off. If any part is refused, nothing of it is stored.

    Raises:
        ValidationError, ConflictError
        AuthorizationError: the actor may not; commands are set only at the shell, or by confirmed superusers.
    """
    if planned.outcome is not Outcome.ADDED:
        raise ValueError(f"{planned.entry} is not to be added")
    with transaction.atomic():
        source = add_source(
            planned.name,
            kind=planned.kind,
            location=planned.location,
            command=planned.command,
            internal=planned.internal,
            actor=actor,
            reason=reason,
        )
        if planned.values:
            connection = _free_name(planned.name)
            create_connection(
                connection, planned.name, form=planned.form, secret=planned.values, actor=actor, reason=reason
            )
            change_origin(planned.name, connection=connection, actor=actor, reason=reason)
            source.refresh_from_db()
    return source


def _free_name(name: str) -> str:
    """A connection of a pack may have the name of the source."""
    used = set(Connection.objects.filter(name__startswith=name).values_list("name", flat=True))
    number = 1
    while (candidate := name if number == 1 else f"{name}-{number}") in used:
        number += 1
    return candidate
