"""How much the hub stores, and how much room there is: one row a day for each place that it writes to."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class DiskSample(models.Model):
    """The last measurement of a place on a day."""

    host = models.CharField(max_length=100, blank=True, help_text="Empty: the database server.")
    place = models.CharField(max_length=16)
    at = models.DateTimeField("day", db_index=True, help_text="Beginning of the day, UTC.")
    measured_at = models.DateTimeField()
    path = models.CharField(max_length=1000, blank=True)
    volume = models.CharField(max_length=40, blank=True, help_text="Places with the same value share a file system.")
    bytes = models.BigIntegerField(help_text="What the hub stores there.")
    free = models.BigIntegerField(null=True, help_text="Free bytes of the file system. Null: not known.")
    total = models.BigIntegerField(null=True)

    class Meta:
        ordering: ClassVar = ["-at", "host", "place"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["host", "place", "at"], name="disk_sampled_once_a_day")
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d} {self.host} {self.place}"
