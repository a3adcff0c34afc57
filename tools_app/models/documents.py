"""OpenAPI documents: what sources of that kind are read from."""

from __future__ import annotations

import hashlib
import zlib
from typing import ClassVar, Final

from django.db import models

from tools_app.models.sources import Source

MOST_ADDRESS: Final = 2_000
MOST_ERROR: Final = 1_000
# What a validator of a server may have. A longer one is not remembered.
MOST_VALIDATOR: Final = 500
MOST_DIFFERENCE: Final = 300


class SourceDocument(models.Model):
    """The document of one source. The base URL of the service is the location of the source, never that of the
    document."""

    source = models.OneToOneField(Source, on_delete=models.CASCADE, primary_key=True, related_name="document")
    address = models.CharField(
        max_length=MOST_ADDRESS,
        blank=True,
        default="",
        db_default="",
        help_text="URL from which it is read again. Empty: it was uploaded.",
    )
    body = models.BinaryField(help_text="The document, compressed.")
    media_type = models.CharField(max_length=100, blank=True, default="", db_default="")
    etag = models.CharField(max_length=MOST_VALIDATOR, blank=True, default="", db_default="")
    modified = models.CharField(max_length=MOST_VALIDATOR, blank=True, default="", db_default="")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the document.")
    facts = models.JSONField(
        default=dict,
        blank=True,
        db_default=models.Value({}, models.JSONField()),
        help_text="What it says about itself: title, version, numbers, security schemes.",
    )
    selected = models.JSONField(
        null=True, blank=True, help_text="Method and path of the operations that are imported. Null: all."
    )
    fetched_at = models.DateTimeField(null=True, blank=True, help_text="When it was read, or confirmed, last.")
    tried_at = models.DateTimeField(
        null=True, blank=True, help_text="When it was requested last. Null: it is read again at the next listing."
    )
    error = models.CharField(
        max_length=MOST_ERROR, blank=True, default="", db_default="", help_text="Why it could not be read again."
    )
    answers = models.BinaryField(
        null=True,
        blank=True,
        help_text="What it declares for the answers of the imported operations, compressed: answers are compared "
        "with it.",
    )
    answers_of = models.CharField(
        max_length=64,
        blank=True,
        default="",
        db_default="",
        help_text="Digest of the document and the selection that `answers` is of.",
    )
    uploaded_by = models.CharField(max_length=150, blank=True, default="", db_default="")

    class Meta:
        verbose_name = "OpenAPI document"
        verbose_name_plural = "OpenAPI documents"

    def __str__(self) -> str:
        return f"{self.source_id}: {self.facts.get('title', '')}"

    @property
    def text(self) -> bytes:
        return zlib.decompress(bytes(self.body))

    @text.setter
    def text(self, text: bytes) -> None:
        self.body, self.digest = zlib.compress(text), digest_of(text)

    @property
    def noted(self) -> dict[str, str] | None:
        """The document in the audit trail; None: there was none."""
        return {"address": self.address, "digest": self.digest} if self.digest else None


class AnswerFinding(models.Model):
    """Answers of one operation that deviate from what the document of its source declares: the latest difference, and
    how often. It has no values of an answer."""

    document = models.ForeignKey(SourceDocument, on_delete=models.CASCADE, related_name="findings")
    operation = models.CharField(max_length=2_000, help_text="Method and path.")
    status = models.PositiveSmallIntegerField(help_text="HTTP status of the latest of these answers.")
    difference = models.CharField(max_length=MOST_DIFFERENCE)
    count = models.PositiveIntegerField(help_text="Number of these answers.")
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        verbose_name = "finding about answers"
        verbose_name_plural = "findings about answers"
        ordering: ClassVar = ["-last_at", "pk"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["document", "operation"], name="answer_finding_of_an_operation")
        ]

    def __str__(self) -> str:
        return f"{self.document_id}: {self.operation}: {self.difference}"


def digest_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
