"""Searches and filters of a list that a person has saved under a name."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models


class SavedView(models.Model):
    MOST_OF_NAME: ClassVar[int] = 80
    MOST_OF_QUERY: ClassVar[int] = 2_000

    name = models.CharField(max_length=MOST_OF_NAME)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    is_shared = models.BooleanField("shared", default=False, help_text="Everyone who may read calls sees it.")
    query = models.CharField(max_length=MOST_OF_QUERY, help_text="The query of its URL.")
    created_at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["name", "pk"]
        verbose_name = "saved view"
        default_permissions: ClassVar = ("add", "delete")
        constraints: ClassVar = [models.UniqueConstraint(fields=["owner", "name"], name="view_of_owner_once")]

    def __str__(self) -> str:
        return self.name
