"""Changes of users of the admin."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from django.utils import timezone

from tools_app.models import AuditEntry
from tools_app.models.audit import note
from tools_app.sdk.errors import ValidationError


def create_admin(username: str, password: str, *, actor: str) -> None:
    """Create a superuser.

    Raises:
        ValidationError: the password is too easy to guess.
    """
    users = get_user_model()._default_manager
    try:
        validate_password(password)
    except DjangoValidationError as error:
        raise ValidationError(f"The password for {username!r} is refused: {' '.join(error.messages)}") from error
    with transaction.atomic():
        users.create_superuser(username, password=password)
        note("user.create", f"user:{username}", actor=actor, changes={"is_superuser": [None, True]})


def note_lock(username: str, address: str, *, within: timedelta) -> None:
    """Record that a user is locked out; one entry per user and address within that time."""
    subject = f"user:{username}"[:150]
    recent = AuditEntry.objects.filter(action="user.lock", subject=subject, at__gte=timezone.now() - within)
    with transaction.atomic():
        if not recent.filter(changes__address=[None, address]).exists():
            note("user.lock", subject, actor="hub", changes={"address": [None, address]})
