"""Changes of users of the admin."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.utils import timezone

from tools_app.access import actions
from tools_app.governance.actors import Actor, changing
from tools_app.models import AuditEntry
from tools_app.models.audit import note
from tools_app.sdk.errors import ValidationError


def create_admin(username: str, password: str, *, actor: Actor) -> None:
    """Create a superuser.

    Raises:
        ValidationError: the password is too easy to guess.
    """
    users = get_user_model()._default_manager
    try:
        validate_password(password)
    except DjangoValidationError as error:
        raise ValidationError(f"The password for {username!r} is refused: {' '.join(error.messages)}") from error
    with changing(actions.USER_CREATE, actor) as change:
        users.create_superuser(username, password=password)
        change.note(f"user:{username}", {"is_superuser": [None, True]})


def note_lock(username: str, address: str, *, within: timedelta) -> None:
    """Record that a user is locked out; one entry per user and address within that time."""
    subject = f"user:{username}"[:150]
    recent = AuditEntry.objects.filter(action=actions.USER_LOCK.event, subject=subject, at__gte=timezone.now() - within)
    with transaction.atomic():
        if not recent.filter(changes__address=[None, address]).exists():
            note(actions.USER_LOCK.event, subject, actor="hub", changes={"address": [None, address]})
