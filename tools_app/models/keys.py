"""API keys: who may come in through the HTTP doors. The key itself is never stored."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


def default_scopes() -> list[str]:
    return ["tools:list", "tools:read", "tools:execute"]


class ApiKey(models.Model):
    name = models.CharField(max_length=100, unique=True, help_text="Who or what uses this key.")
    prefix = models.CharField(max_length=12, unique=True, editable=False, help_text="The start of the key.")
    hash = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=default_scopes)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering: ClassVar = ["name"]
        verbose_name = "API key"
        constraints: ClassVar = [models.CheckConstraint(condition=~models.Q(name=""), name="key_has_a_name")]

    def __str__(self) -> str:
        return self.name

    def usable(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)
