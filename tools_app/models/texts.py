"""The arguments of calls as searches read them, apart from the calls: nothing of this is written while a call waits."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class CallText(models.Model):
    """The arguments of a call, exactly as they are stored with it. Triggers delete them together (`text_index`)."""

    # Ascends with the time at which calls began, so that the index yields the newest ones first (`journal.texts`).
    id = models.BigAutoField(primary_key=True)
    call_id = models.CharField(max_length=32)
    text = models.TextField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["call_id"], name="text_of_call_once")]

    def __str__(self) -> str:
        return self.call_id


class PendingText(models.Model):
    """A call that has been counted, and whose arguments are not yet in the index."""

    call_id = models.CharField(max_length=32)

    def __str__(self) -> str:
        return self.call_id
