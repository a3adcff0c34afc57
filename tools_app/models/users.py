"""What the hub stores of users beside their project's own table."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from tools_app.models.audit import MOST_OF_ADDRESS, MOST_OF_CLIENT


class PasswordLink(models.Model):
    """A link with which a user chooses a password, once: an invitation, or a reset. A new one replaces it."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    hash = models.CharField(max_length=64, unique=True, editable=False, help_text="Of the code in the link.")
    state = models.CharField(max_length=64, editable=False, help_text="Digest of password, role and last sign-in.")
    made_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()

    objects: ClassVar[models.Manager[PasswordLink]] = models.Manager()

    class Meta:
        verbose_name = "password link"

    def __str__(self) -> str:
        return f"{self.user_id}"


class BrowserSession(models.Model):
    """A session of a user in the admin: since when, from where, and when it was last used."""

    # As in the table of Django's sessions. It is shown and exported nowhere.
    session_key = models.CharField(max_length=40, unique=True, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    caller_id = models.CharField(max_length=64, db_index=True, help_text="Id of the user in the records.")
    method = models.CharField("signed in with", max_length=30, blank=True)
    address = models.CharField(max_length=MOST_OF_ADDRESS, blank=True, help_text="Of the last request.")
    client = models.CharField("browser", max_length=MOST_OF_CLIENT, blank=True, help_text="User agent.")
    started_at = models.DateTimeField("signed in")
    seen_at = models.DateTimeField("last seen", db_index=True, help_text="To the minute.")

    objects: ClassVar[models.Manager[BrowserSession]] = models.Manager()

    class Meta:
        ordering: ClassVar = ["-seen_at", "-pk"]
        verbose_name = "session"

    def __str__(self) -> str:
        return f"{self.caller_id} {self.address}"
